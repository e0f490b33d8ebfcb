"""Results of a benchmark that fails, is interrupted or killed: what it has is kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import results

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def halfway():
    yield {"x": 1}
    raise ValueError("a broken part")


def doubled(job):
    if job == 2:
        raise ValueError("a broken job")
    return [{"x": 2 * job}]


def rows_in(path):
    return json.loads(path.read_text())["rows"]


def test_a_part_that_fails_keeps_its_rows_and_the_others_go_on(tmp_path, capsys):
    kept = results.Kept("t.json", "make t", folder=tmp_path)
    kept.part("first", halfway)
    kept.part("second", lambda: [{"x": 2}])
    assert not kept.done()
    assert rows_in(tmp_path / "partial" / "t.json") == [{"x": 1}, {"x": 2}]
    assert not (tmp_path / "t.json").exists(), "half a run is no result"
    reported = capsys.readouterr()
    assert "first: failed, the others go on" in reported.out
    assert "failed: first" in reported.out
    assert "a broken part" in reported.err


def test_a_whole_run_is_a_result_and_leaves_nothing_else(tmp_path):
    kept = results.Kept("t.json", "make t", folder=tmp_path)
    kept.part("first", lambda: [{"x": 1}])
    assert kept.done()
    assert rows_in(tmp_path / "t.json") == [{"x": 1}]
    assert list((tmp_path / "partial").iterdir()) == []


def test_a_run_without_rows_is_no_result(tmp_path):
    kept = results.Kept("t.json", "make t", folder=tmp_path)
    kept.part("first", list)
    assert not kept.done()
    assert not (tmp_path / "t.json").exists()


def test_half_a_run_is_not_summarised(tmp_path):
    kept = results.Kept("t.json", "make t", folder=tmp_path)
    kept.part("first", lambda: [{"x": 1}])
    with pytest.raises(SystemExit, match=r"no t\.json yet: make t makes it"):
        kept.ended()
    assert kept.done()
    kept.part("second", lambda: [{"x": 2}])
    assert kept.ended() == [{"x": 1}], "the run that ended, not the one that goes on"


def test_jobs_in_processes_of_their_own_are_kept_in_order(tmp_path):
    kept = results.Kept("t.json", "make t", folder=tmp_path)
    kept.pooled(doubled, [1, 2, 3])
    assert kept.rows == [{"x": 2}, {"x": 6}]
    assert kept.failed == ["2"]


def test_an_interrupt_ends_the_run_and_keeps_what_it_has(tmp_path):
    def interrupted():
        yield {"x": 1}
        raise KeyboardInterrupt

    kept = results.Kept("t.json", "make t", folder=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        kept.part("first", interrupted)
    assert rows_in(tmp_path / "partial" / "t.json") == [{"x": 1}]


def test_a_run_that_is_killed_leaves_the_parts_it_had(tmp_path):
    script = (
        "import os, signal, pathlib, results\n\n"
        f"kept = results.Kept('t.json', 'make t', folder=pathlib.Path({str(tmp_path)!r}))\n"
        "kept.part('first', lambda: [{'x': 1}])\n"
        "kept.part('second', lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=BENCHMARKS, check=False)
    assert ran.returncode == -9
    assert rows_in(tmp_path / "partial" / "t.json") == [{"x": 1}]
