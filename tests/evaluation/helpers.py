import math

from keras_bpn.evaluation import LearningHistory

NAN, INF = math.nan, math.inf


def make_history():
    """Returns three tasks, of which two have ended."""
    history = LearningHistory(
        ["0/1", "2/3", "4/5"], settings={"seed": 1, "units": (300, 300)}
    )
    history.matrix.set_untrained({"0/1": 0.5, "2/3": 0.25})
    history.record_epoch("0/1", 0, {"loss": 1.5}, {"0/1": 0.75})
    history.record_epoch("0/1", 1, {"loss": 0.1}, {"0/1": 1.0})
    history.record_task(
        "0/1",
        {"0/1": 1.0, "2/3": 0.5},
        seconds=2.5,
        peak_memory=1000,
        stored_bytes=840,
        added_parameters=210,
    )
    history.record_epoch("2/3", 0, {"loss": NAN, "other": [1.0, INF]})
    history.record_task(
        "2/3", {"0/1": 0.75, "2/3": 0.1}, seconds=3, stored_bytes=860
    )
    history.record_epoch("4/5", 3, {"loss": -INF}, {"0/1": 0.5, "2/3": NAN})
    return history
