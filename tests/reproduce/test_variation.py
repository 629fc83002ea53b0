import json

import pytest

from reproduce import ablation
from reproduce import hyperparameters
from reproduce.variation import Variant

CHOSEN = {
    "BD+EWC": {
        "learning_rate": 1e-3,
        "strength": 500.0,
        "epsilon": 0.02,
        "hidden_gain": 4.0,
    }
}


def test_one_thing_is_changed():
    assert Variant("BD+EWC", {"epsilon": 0.1}).settings(CHOSEN) == {
        **CHOSEN["BD+EWC"],
        "epsilon": 0.1,
    }
    scaled = Variant("BD+EWC", factors={"epsilon": 1 / 4}).settings(CHOSEN)
    assert scaled == {**CHOSEN["BD+EWC"], "epsilon": 0.005}


def test_settings_that_a_method_lacks_are_left_out():
    assert Variant("EWC", settings_of="BD+EWC").settings(CHOSEN) == {
        "learning_rate": 1e-3,
        "strength": 500.0,
    }
    assert Variant("GD+EWC", settings_of="BD+EWC").settings(CHOSEN) == {
        "learning_rate": 1e-3,
        "strength": 500.0,
        "hidden_gain": 4.0,
    }
    assert Variant("BD+fine-tuning", settings_of="BD+EWC").settings(CHOSEN) == {
        "learning_rate": 1e-3,
        "epsilon": 0.02,
        "hidden_gain": 4.0,
    }


def test_variants_of_an_experiment_know_what_was_chosen(monkeypatch, tmp_path):
    base = type(ablation.BASE)
    monkeypatch.setattr(base, "folder", tmp_path)
    with pytest.raises(FileNotFoundError, match="incremental-mnist"):
        ablation.COMPARISON.choose(["BD+EWC"], tmp_path)
    (tmp_path / "search.json").write_text(json.dumps({"chosen": CHOSEN}))
    names = ["BD+EWC", "no bias units", "gradients on M (GD)"]
    chosen = ablation.COMPARISON.choose(names, tmp_path)
    assert chosen["BD+EWC"] == CHOSEN["BD+EWC"]
    assert "epsilon" not in chosen["no bias units"]
    assert ablation.COMPARISON.contender("no bias units").method == "EWC"


def test_small_versions_need_no_search():
    quick = hyperparameters.COMPARISON.quick_version()
    chosen = quick.choose(["BD+PSP, H 25", "BD+EWC, lambda 20"], None)
    assert chosen["BD+PSP, H 25"]["hidden_dim"] == 25
    assert chosen["BD+EWC, lambda 20"]["strength"] == 20.0


def test_what_is_varied():
    names = list(hyperparameters.VARIANTS)
    assert "BD+EWC, H 2500" in names and "BD+PSP, H 1" in names
    assert not any("PSP, lambda" in name for name in names)
    assert len(names) == len(set(names)) == 33 + 27
