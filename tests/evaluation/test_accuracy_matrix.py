import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keras_bpn.evaluation import AccuracyMatrix

NAN = np.nan
METRICS = (
    "average_accuracy",
    "learning_accuracy",
    "forgetting",
    "backward_transfer",
    "forward_transfer",
)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def names(size):
    return [f"task {i}" for i in range(size)]


def metrics(matrix, after=None):
    return [getattr(matrix, metric)(after) for metric in METRICS]


def check(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


FULL = [
    [0.8, 0.3, 0.2],
    [0.6, 0.9, 0.4],
    [0.7, 0.5, 1.0],
]


def test_metrics_of_a_full_matrix():
    matrix = AccuracyMatrix(names(3), FULL, untrained=[0.5, 0.2, 0.1])
    # After the last task:
    #   average   (0.7 + 0.5 + 1.0) / 3
    #   learning  (0.8 + 0.9 + 1.0) / 3
    #   forgetting of task 0: max(0.8, 0.6) - 0.7 = 0.1; of task 1:
    #     0.9 - 0.5 = 0.4; their mean 0.25
    #   backward  ((0.7 - 0.8) + (0.5 - 0.9)) / 2
    #   forward   ((0.3 - 0.2) + (0.4 - 0.1)) / 2
    check(metrics(matrix), [2.2 / 3, 0.9, 0.25, -0.25, 0.2])
    assert metrics(matrix) == metrics(matrix, 2) == metrics(matrix, "task 2")
    # After task 1: (0.6 + 0.9) / 2, (0.8 + 0.9) / 2, 0.8 - 0.6, 0.6 - 0.8,
    # 0.3 - 0.2.
    check(metrics(matrix, 1), [0.75, 0.85, 0.2, -0.2, 0.1])
    assert metrics(matrix, 1) == metrics(matrix, -2)
    check(metrics(matrix, 0), [0.8, 0.8, NAN, NAN, NAN])
    check(matrix.average_so_far(), [0.8, 0.75, 2.2 / 3])
    check(matrix.forgetting_by_task(), [0.1, 0.4])


def test_forgetting_is_measured_from_the_best_since_a_task_was_learned():
    matrix = AccuracyMatrix(
        names(3),
        [
            [0.5, 1.0, NAN],
            [0.9, 0.4, NAN],
            [0.6, 0.6, 0.7],
        ],
    )
    # Task 0 was best after task 1: 0.9 - 0.6. The 1.0 on task 1 is from before
    # it was learned, so 0.4 - 0.6.
    check(matrix.forgetting_by_task(), [0.3, -0.2])
    check(matrix.forgetting(), 0.05)
    # ((0.6 - 0.5) + (0.6 - 0.4)) / 2
    check(matrix.backward_transfer(), 0.15)
    assert np.isnan(matrix.forward_transfer())


def test_rows_that_were_not_measured():
    # After every other task all tasks so far were measured, in between only
    # the task just learned.
    matrix = AccuracyMatrix(
        names(4),
        [
            [0.9, NAN, NAN, NAN],
            [0.8, 0.7, NAN, NAN],
            [NAN, NAN, 0.6, NAN],
            [0.5, 0.5, 0.5, 0.9],
        ],
    )
    check(matrix.average_so_far(), [0.9, 0.75, NAN, 0.6])
    # 3.1 / 4; (0.4 + 0.2 + 0.1) / 3; minus the same, all were best at first.
    check(metrics(matrix), [0.6, 3.1 / 4, 0.7 / 3, -0.7 / 3, NAN])
    # After task 2: only the learning accuracy needs no other value of the row.
    check(metrics(matrix, 2), [NAN, 2.2 / 3, NAN, NAN, NAN])


def test_without_the_accuracies_just_after_learning():
    matrix = AccuracyMatrix(
        names(3),
        [[NAN, NAN, NAN], [0.75, 0.5, NAN], [0.25, 0.5, 1.0]],
    )
    # R[0, 0] is unknown. Forgetting of task 0 is from R[1, 0]:
    # (0.75 - 0.25 + 0.5 - 0.5) / 2.
    check(metrics(matrix), [1.75 / 3, NAN, 0.25, NAN, NAN])
    # Nothing is known of task 0 before task 1.
    check(metrics(matrix, 1), [0.625, NAN, NAN, NAN, NAN])


def test_a_last_row_in_part():
    matrix = AccuracyMatrix(
        names(3), [[1.0, NAN, NAN], [0.5, 1.0, NAN], [NAN, NAN, 1.0]]
    )
    # It is not replaced by an earlier one.
    assert matrix.last == 2
    check(metrics(matrix), [NAN, 1.0, NAN, NAN, NAN])


def test_learning_under_way():
    matrix = AccuracyMatrix(names(3))
    assert matrix.last is None
    check(metrics(matrix), [NAN] * 5)
    check(matrix.average_so_far(), [NAN] * 3)
    matrix.set_row(0, {"task 0": 1.0})
    matrix.set_row("task 1", {"task 1": 0.5, "task 0": 0.25})
    assert matrix.last == 1
    check(metrics(matrix), [0.375, 0.75, 0.75, -0.75, NAN])
    check(matrix.average_so_far(), [1.0, 0.375, NAN])


def test_what_was_measured_of_tasks_to_come_is_not_the_last_row():
    matrix = AccuracyMatrix(["a", "b", "c"], untrained=[0.5, 0.25, 0.5])
    matrix.set_row(0, {"b": 0.5})
    assert matrix.last is None
    matrix.set_row(1, {"a": 0.5, "b": 1.0})
    matrix.set_row(2, {})
    assert matrix.last == 1
    assert matrix.average_accuracy() == 0.75
    assert matrix.forward_transfer() == 0.25


def test_one_task():
    matrix = AccuracyMatrix(["a"], [[0.5]], untrained=[0.25])
    check(metrics(matrix), [0.5, 0.5, NAN, NAN, NAN])
    assert matrix.forgetting_by_task().shape == (0,)


@pytest.mark.parametrize("values", [None, [], np.zeros((0, 0))])
def test_no_tasks(values):
    matrix = AccuracyMatrix([], values, values if values is None else [])
    assert matrix.values.shape == (0, 0)
    assert matrix.last is None
    assert metrics(matrix) == pytest.approx([NAN] * 5, nan_ok=True)
    assert matrix.average_so_far().shape == (0,)
    again = AccuracyMatrix.from_dict(matrix.to_dict())
    assert again.values.shape == (0, 0)


def test_a_row_is_set_as_a_whole():
    matrix = AccuracyMatrix(["a", "b"])
    matrix.set_row(1, {"a": 0.5, "b": 1})
    matrix.set_row(1, {"b": np.float32(0.25), "a": NAN})
    np.testing.assert_array_equal(matrix.values, [[NAN, NAN], [NAN, 0.25]])
    matrix.set_row(-1, {})
    assert matrix.last is None


def test_untrained_can_be_set():
    matrix = AccuracyMatrix(["a", "b"], [[1.0, 0.75], [1.0, 1.0]])
    assert np.isnan(matrix.forward_transfer())
    matrix.set_untrained({"b": 0.5})
    np.testing.assert_array_equal(matrix.untrained, [NAN, 0.5])
    assert matrix.forward_transfer() == 0.25


def test_what_is_given_and_returned_is_a_copy():
    values, untrained = np.ones((2, 2)), np.ones(2)
    matrix = AccuracyMatrix(["a", "b"], values, untrained)
    values[:], untrained[:] = 0, 0
    matrix.values[:], matrix.untrained[:] = 0, 0
    np.testing.assert_array_equal(matrix.values, np.ones((2, 2)))
    np.testing.assert_array_equal(matrix.untrained, np.ones(2))


@pytest.mark.parametrize(
    "tasks", ["ab", ["a", "a"], ["a", ""], ["a", 1], [None]]
)
def test_bad_names(tasks):
    with pytest.raises(ValueError, match="distinct, non-empty names.*Received"):
        AccuracyMatrix(tasks)


@pytest.mark.parametrize(
    "values",
    [
        [[0.5]],
        [[0.5, 0.5], [0.5]],
        [0.5, 0.5],
        np.zeros((2, 2, 1)),
        [[0.5, 1.5], [0.5, 0.5]],
        [[0.5, -0.1], [0.5, 0.5]],
        [[0.5, np.inf], [0.5, 0.5]],
        [[0.5, "0.5"], [0.5, 0.5]],
        [[0.5, True], [0.5, 0.5]],
        [],
        0.5,
    ],
)
def test_bad_values(values):
    with pytest.raises(ValueError, match=r"`values` to have shape \(2, 2\)"):
        AccuracyMatrix(["a", "b"], values)


@pytest.mark.parametrize("untrained", [[0.5], [0.5, 2.0], [[0.5, 0.5]]])
def test_bad_untrained(untrained):
    with pytest.raises(ValueError, match=r"`untrained` to have shape \(2,\)"):
        AccuracyMatrix(["a", "b"], untrained=untrained)


@pytest.mark.parametrize(
    "after, accuracy, message",
    [
        (2, {}, "from -2 to 1. Received: 2"),
        (-3, {}, "Received: -3"),
        (True, {}, "Received: True"),
        (0.0, {}, "Received: 0.0"),
        ("birds", {}, "Received: 'birds'. Did you mean 'bird'?"),
        (0, {"bird": 0.5, "fishes": 1.0}, "Received: 'fishes'.*'fish'"),
        (0, {"bird": 0.5, "fish": 1.01}, "from 0 to 1.*1.01 for task 'fish'"),
        (0, {"bird": 0.5, "fish": "1"}, "from 0 to 1.*'1' for task 'fish'"),
        (0, {"bird": 0.5, "fish": None}, "from 0 to 1.*None for task 'fish'"),
        (0, {"bird": 0.5, 1: 0.5}, "names of tasks. Received: 1"),
        (0, [0.5, 0.5], "dictionary.*Received"),
    ],
)
def test_bad_rows_change_nothing(after, accuracy, message):
    matrix = AccuracyMatrix(["bird", "fish"], np.ones((2, 2)))
    with pytest.raises(ValueError, match=message):
        matrix.set_row(after, accuracy)
    np.testing.assert_array_equal(matrix.values, np.ones((2, 2)))
    if after == 0 and type(after) is int:
        with pytest.raises(ValueError, match=message):
            matrix.set_untrained(accuracy)
        assert np.isnan(matrix.untrained).all()


@pytest.mark.parametrize(
    "change",
    [
        {"tasks": "ab"},
        {"values": [[0.5, 0.5]]},
        {"values": "0.5"},
        {"untrained": {}},
        {"more": 1},
    ],
)
def test_broken_dictionaries(change):
    record = AccuracyMatrix(["a", "b"]).to_dict()
    with pytest.raises(ValueError, match="Expected.*Received"):
        AccuracyMatrix.from_dict({**record, **change})
    del record["untrained"]
    with pytest.raises(ValueError, match="with the keys.*Received"):
        AccuracyMatrix.from_dict(record)


@st.composite
def matrices(draw, full=False, max_size=5):
    size = draw(st.integers(1 if full else 0, max_size))
    values = st.floats(0, 1)
    if not full:
        values = values | st.just(NAN)
    return AccuracyMatrix(
        draw(
            st.lists(
                st.text(min_size=1), min_size=size, max_size=size, unique=True
            )
        ),
        draw(hnp.arrays(float, (size, size), elements=values)),
        draw(hnp.arrays(float, size, elements=values)),
    )


@settings(deadline=None)
@given(matrices())
def test_dictionaries_are_strict_json_and_give_the_same_matrix(matrix):
    text = json.dumps(matrix.to_dict(), allow_nan=False)
    again = AccuracyMatrix.from_dict(json.loads(text))
    assert again.tasks == matrix.tasks
    np.testing.assert_array_equal(again.values, matrix.values)
    np.testing.assert_array_equal(again.untrained, matrix.untrained)
    assert again.to_dict() == matrix.to_dict()


@settings(deadline=None)
@given(matrices(full=True))
def test_relations_between_metrics(matrix):
    average, learning, forgetting, backward, forward = metrics(matrix)
    values = matrix.values
    k = len(matrix.tasks) - 1
    assert values[-1].min() - 1e-12 <= average <= values[-1].max() + 1e-12
    assert 0 <= learning <= 1
    if not k:
        assert np.isnan([forgetting, backward, forward]).all()
        return
    assert -1 <= forgetting <= 1
    # The best is at least what it was just after learning.
    assert forgetting >= -backward - 1e-12
    check(backward, (average - learning) * (k + 1) / k)
    assert -1 <= forward <= 1
    check(matrix.average_so_far()[-1], average)


@settings(deadline=None)
@given(matrices(full=True), st.data())
def test_a_missing_value_gives_nan_or_a_smaller_forgetting(matrix, data):
    size = len(matrix.tasks)
    values = matrix.values
    missing = data.draw(st.tuples(*[st.integers(0, size - 1)] * 2))
    values[missing] = NAN
    less = AccuracyMatrix(matrix.tasks, values, matrix.untrained)
    for name, before, now in zip(
        METRICS, metrics(matrix, -1), metrics(less, -1)
    ):
        if name == "forgetting" and not np.isnan([before, now]).any():
            assert now <= before + 1e-12
        else:
            assert np.isnan(now) or now == before


@settings(deadline=None)
@given(matrices(full=True), st.data())
def test_metrics_do_not_depend_on_what_comes_later(matrix, data):
    after = data.draw(st.integers(0, len(matrix.tasks) - 1))
    values = matrix.values
    values[after + 1 :] = NAN
    earlier = AccuracyMatrix(matrix.tasks, values, matrix.untrained)
    check(metrics(earlier), metrics(matrix, after))
