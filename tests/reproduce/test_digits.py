import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "reproduce", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "TFDS_DATA_DIR": os.devnull},
    )


def test_demo_writes_table_figure_and_record(tmp_path):
    result = run(
        "digits",
        "--methods",
        "BD+EWC",
        "fine-tuning",
        "--epochs",
        "1",
        "--output",
        str(tmp_path),
    )
    assert result.returncode == 0, result.stderr
    assert f"Written to {tmp_path}" in result.stdout
    assert "BD+EWC" in result.stdout and "bytes per task" in result.stdout
    assert "s left] BD+EWC: task 8/9" in result.stderr
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["settings"]["epochs"] == 1
    assert record["versions"]["keras_bpn"]
    accuracy = record["results"]["BD+EWC"]["accuracy"]
    assert len(accuracy) == 5 and all(0 <= a <= 1 for a in accuracy)
    # 4 * (100 + 100 + 10) bytes for the rows of the bias units.
    assert record["results"]["BD+EWC"]["bytes_per_task"] == 840
    assert record["results"]["fine-tuning"]["bytes_per_task"] == 0
    # One row per epoch, and nothing of a task before it starts.
    history = record["results"]["BD+EWC"]["history"]
    assert len(history) == 5
    assert history[0][1:] == [None] * 4 and None not in history[4]
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "table.md").read_text() in result.stdout + "\n"


def test_unknown_experiments_and_methods_are_named():
    assert "invalid choice: 'digit'" in run("digit").stderr
    result = run("digits", "--methods", "BD+XYZ")
    assert result.returncode == 2 and "invalid choice" in result.stderr
