"""Who takes more than its share of CPU is named, and fails CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import AT_MOST, CPU_SECONDS

TEST = "def test_x(record_property):\n    record_property('cpu', {})\n"


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "code"), [(CPU_SECONDS + 1, 0), (AT_MOST + 1, 1)])
def test_a_file_above_its_share_is_named_and_fails_ci_above_half_as_much_again(
    tmp_path, seconds, code
):
    (tmp_path / "test_x.py").write_text(TEST.format(seconds))
    (tmp_path / "test_y.py").write_text(TEST.format(CPU_SECONDS - 1))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "-n1"],
        cwd=tmp_path,
        env=os.environ | {"LIMIT_CPU": "1", "PYTHONPATH": f"{Path(__file__).parent}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout
    assert f"test_x.py took {seconds} s" in done.stdout
    assert "test_y.py took" not in done.stdout
