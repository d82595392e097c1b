"""What a verb shows: text and tables for people, or one JSON document for programs. Logs and bars go to standard error."""

from __future__ import annotations

import dataclasses
import enum
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from easy_knowledge_retriever.errors import EKRError

__all__ = ["SCHEMA_VERSION", "Screen", "counted", "plain", "printable"]

SCHEMA_VERSION = 1
"""Of every JSON document. A field may be added within a version; a removed or changed one raises it."""
_PIPE_WIDTH = 160
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def printable(text: str) -> str:
    """The text without control, direction and tag characters: a document must not steer the terminal it is shown on."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: ``1 page``, ``2 pages``; ``many`` where an s is not enough."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def plain(value: object) -> Any:  # what JSON can hold
    """A value of ours as plain data for JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {spec.name: plain(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, Path):
        return str(value)
    return value


class Screen:
    """Where a verb writes.

    Args:
        verb: Name of the verb, part of the JSON document.
        as_json: One JSON document on standard output instead of text.
        quiet: Nothing but results and errors.
        verbosity: 1 shows what happens, 2 also the details, and tracebacks of errors.
        color: None lets the terminal and ``NO_COLOR`` decide.
    """

    def __init__(
        self, verb: str, *, as_json: bool = False, quiet: bool = False, verbosity: int = 0, color: bool | None = None
    ) -> None:
        self.verb = verb
        self.as_json = as_json
        self.quiet = quiet
        self.verbosity = verbosity
        self._out = _console(sys.stdout, color=color)
        self.err = _console(sys.stderr, color=color)
        self._log()

    @property
    def lively(self) -> bool:
        """Whether bars may be drawn."""
        return self.err.is_terminal and not self.quiet and not self.as_json

    def say(self, text: str = "", style: str = "") -> None:
        """A line for people; nothing in JSON."""
        if not self.as_json:
            self._out.print(Text(printable(text), style=style), soft_wrap=True)

    def piece(self, text: str) -> None:
        """A piece of a line for people, shown at once; nothing in JSON."""
        if not self.as_json:
            self._out.print(Text(printable(text)), end="", soft_wrap=True)
            self._out.file.flush()

    def note(self, text: str) -> None:
        """A line on standard error that ``--quiet`` and ``--json`` leave out."""
        if not self.quiet and not self.as_json:
            self.err.print(Text(printable(text), style="dim"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
        """A table for people; nothing in JSON."""
        if self.as_json:
            return
        shown = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
        for column in columns:
            shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(printable("" if cell is None else str(cell)) for cell in row))
        self._out.print(shown)

    def result(self, data: Mapping[str, object], show: Callable[[], None]) -> None:
        """The result of the verb: ``data`` as JSON, or whatever ``show`` says to people."""
        if self.as_json:
            self._document({"ok": True, **data})
        else:
            show()

    def error(self, failure: EKRError) -> None:
        """The failure with its hint."""
        self.failed(getattr(failure, "reason", failure.code), failure.message, failure.hint)

    def failed(self, code: str, message: str, hint: str = "") -> None:
        """Why the verb failed: on standard error, or in JSON as the document, so that a program always gets one."""
        if self.as_json:
            self._document({"ok": False, "error": {"code": code, "message": message, "hint": hint}})
        else:
            self.complain(message, hint)

    def complain(self, message: str, hint: str = "") -> None:
        """A failure of a part, on standard error; nothing in JSON, where the result says it."""
        if self.as_json:
            return
        self.err.print(Text("error: ", style="bold red").append(printable(message), style="not bold default"), soft_wrap=True)
        if hint:
            self.err.print(Text("hint: ", style="bold").append(printable(hint), style="not bold"), soft_wrap=True)

    def _document(self, data: Mapping[str, object]) -> None:
        document = {"schema_version": SCHEMA_VERSION, "verb": self.verb, **plain(data)}
        self._out.file.write(json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n")
        self._out.file.flush()

    def _log(self) -> None:
        logger = logging.getLogger("easy_knowledge_retriever")
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.handlers[:] = [handler]
        levels = (logging.WARNING, logging.INFO, logging.DEBUG)
        logger.setLevel(logging.ERROR if self.quiet else levels[min(self.verbosity, 2)])


def _console(file: Any, *, color: bool | None) -> Console:  # a text stream
    width = None if file.isatty() else _PIPE_WIDTH
    return Console(
        file=file, width=width, markup=False, highlight=False, emoji=False, no_color=None if color is None else not color
    )
