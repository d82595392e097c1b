"""What a verb shows."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from easy_knowledge_retriever.cli.output import Screen, plain, printable
from easy_knowledge_retriever.cli.progress import progress
from easy_knowledge_retriever.events import (
    DocumentFailed,
    DocumentFinished,
    DocumentStarted,
    StageFinished,
    StageProgress,
    StageStarted,
)
from easy_knowledge_retriever.types import DocRecord, DocStatus


def test_control_characters_are_shown_as_such() -> None:
    shown = printable("a\x1b[31mb\x07\r\n\tc\x9b").replace("\N{REPLACEMENT CHARACTER}", "?")
    assert shown == "a?[31mb??\n\tc?"


def test_values_become_plain_data() -> None:
    record = DocRecord(id="1", name="a", status=DocStatus.FAILED, metadata={"year": 1})
    assert plain({"record": record, "ids": frozenset({"b", "a"}), "path": Path("x")}) == {
        "record": plain(record),
        "ids": ["a", "b"],
        "path": "x",
    }
    assert plain(record)["status"] == "failed"
    json.dumps(plain(record))


def test_markup_in_a_document_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("x")
    screen.say("[bold]not bold[/bold] :smile:")
    screen.table(("a",), [("[red]cell",)])
    out = capsys.readouterr().out
    assert "[bold]not bold[/bold] :smile:" in out
    assert "[red]cell" in out


def test_quiet_leaves_notes_out(capsys: pytest.CaptureFixture[str]) -> None:
    Screen("x", quiet=True).note("unheard")
    Screen("x").note("heard")
    assert capsys.readouterr().err.strip() == "heard"


def _events() -> list[object]:
    return [
        DocumentStarted("a[b].md"),
        StageStarted("a[b].md", "embed", 2),
        StageProgress("a[b].md", "embed", 1, 2),
        StageFinished("a[b].md", "embed", 0.1),
        DocumentFinished("a[b].md", 3, 2, 1, 0.5),
        DocumentStarted("c.md"),
        DocumentFailed("c.md", "parse", "corrupt", "no"),
        DocumentFinished("d.md", 0, 0, 0, 0.0, unchanged=True),
    ]


def test_lines_stand_in_for_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(Screen("x"), 3) as observer:
        for event in _events():
            observer(event)  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        "1/3 a[b].md: 3 chunks, 2 entities, 1 relation in 0.5 s",
        "2/3 c.md: failed at parse",
        "3/3 d.md: unchanged",
    ]


def test_bars_are_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("x")
    drawn = io.StringIO()
    screen.err = Console(file=drawn, force_terminal=True, width=100, markup=False)
    assert screen.lively
    with progress(screen, 3) as observer:
        for event in _events():
            observer(event)  # type: ignore[arg-type]
    assert "documents" in drawn.getvalue()
    assert "3 chunks" in drawn.getvalue()
    assert sys.stderr is not drawn
