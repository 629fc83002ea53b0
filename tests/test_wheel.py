import os
import pathlib
import re
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).parent.parent


def test_wheel_runs_the_readme_example_elsewhere(tmp_path):
    subprocess.run(
        [
            sys.executable,
            *("-m", "build", "--wheel", "--outdir", tmp_path),
            ROOT,
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.split("/")[0] for name in archive.namelist()}
    assert {f.split("-")[0] for f in folders} == {"keras_bpn"}

    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", target, wheel], check=True)
    readme = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", readme, re.S)[1]
    code = code.replace("epochs=10", "epochs=1") + (
        "\nprint(keras_bpn.__file__)\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith(
        str(target / "keras_bpn" / "__init__.py")
    )
