"""``kill -9`` at random times over a random sequence of changes; the command has the figures, this is a short run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.crashes import report, run
from evaluation.crashing.places import PLACES


@pytest.mark.parametrize("store", PLACES)
@pytest.mark.parametrize("kills", [5, pytest.param(300, marks=pytest.mark.long)])
def test_nothing_acknowledged_is_lost(tmp_path: Path, store: str, kills: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = run(store, kills, 1, tmp_path)
    assert (tally.kills, tally.lost, tally.findings, tally.different) == (kills, 0, [], 0)
    report(store, tally, 60.0)
    assert f"{kills} (" in capsys.readouterr().out


def test_it_ends_in_time_and_says_how_far_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally = run("sqlite", 300, 1, tmp_path, minutes=0.0)
    assert (tally.kills, tally.is_clean) == (0, True)
    report("sqlite", tally, 0.0)
    assert "none" in capsys.readouterr().out
