import keras
import pytest

import keras_bpn
from keras_bpn import consolidation
from keras_bpn import methods
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks

PROTECTIONS = {
    "EWC": consolidation.EWC,
    "GEM": consolidation.GEM,
    "IMM": consolidation.IMM,
    "LwF": consolidation.LwF,
    "EBLL": consolidation.EBLL,
    "SI": consolidation.SI,
    "MAS": consolidation.MAS,
    "SLNID": consolidation.SLNID,
    "PSP": consolidation.PSP,
    "fine-tuning": type(None),
}


def test_the_thirteen_of_the_paper():
    names = methods.names()
    assert len(names) == len(set(names)) == 13
    assert set(names) - {"STL", "BD+EWC", "BD+PSP", "GD+EWC"} == set(
        PROTECTIONS
    ) - {"fine-tuning"}


@pytest.mark.parametrize(
    "prefix, direction",
    [("", None), ("BD+", "beneficial"), ("GD+", "gradient")],
)
@pytest.mark.parametrize("method", PROTECTIONS)
def test_names_give_directions_and_consolidations(prefix, direction, method):
    arguments = methods.get(prefix + method)
    assert arguments["direction"] == direction
    assert type(arguments["consolidation"]) is PROTECTIONS[method]
    assert "epsilon" not in arguments


def test_settings_reach_their_class():
    arguments = methods.get("BD+EWC", strength=7.0, epsilon=0.5)
    assert arguments["epsilon"] == 0.5
    assert arguments["consolidation"].strength == 7.0
    assert methods.get("STL") == {"direction": None, "consolidation": None}


@pytest.mark.parametrize(
    "name, settings, message",
    [
        ("EWCC", {}, "Received: name='EWCC'. Did you mean 'EWC'"),
        ("BD+EWCX", {}, "Did you mean 'BD\\+EWC'"),
        ("XD+EWC", {}, "Received: name='XD\\+EWC'"),
        ("BD+STL", {}, "network for each task"),
        ("", {}, "Received: name=''"),
        ("EWC", {"epsilon": 0.1}, "Received: epsilon=0.1"),
        ("SI", {"labels": "true"}, "among .*'strength'.*labels='true'"),
        ("STL", {"strength": 1.0}, "Received: strength=1.0"),
        ("EWC", {"strength": -1.0}, "Received: strength=-1.0"),
    ],
)
def test_mistakes(name, settings, message):
    with pytest.raises(ValueError, match=message):
        methods.get(name, **settings)


@pytest.mark.parametrize(
    "name", [*methods.names(), *(f"BD+{m}" for m in PROTECTIONS)]
)
def test_a_comparison_is_a_loop_over_names(name):
    model = methods.build(name, make_model)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **methods.get(name),
    )
    with pytest.warns() if "GEM" in name else _no_warning():
        train_tasks(model, "abc", epochs=1)
    assert model.tasks == ("a", "b", "c")
    x, y = make_data(2)
    assert 0 <= model.evaluate(x, y, task="c", verbose=0)[1] <= 1
    storage = model.storage()
    if name.startswith("BD+"):
        assert storage.bytes_per_task >= 4 * (12 + 9 + 6)
    elif name == "GEM":
        assert storage.bytes_per_task > 0
    elif name not in ("STL", "GD+EWC"):
        assert storage.bytes_per_task == 0
    assert isinstance(model, keras_bpn.BPNModel) == (name != "STL")


class _no_warning:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False
