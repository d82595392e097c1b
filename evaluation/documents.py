"""What the parsers find in real documents, against what people who looked at them expect.

    python -m evaluation.documents --data DATA

``expected.jsonl`` names, for a file and perhaps a page, passages that must be there in one piece, cells that must stand in one
row, or why the file must be refused. Each file is parsed in a process of its own, whose time and peak of memory are shown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from easy_knowledge_retriever.errors import EKRError, ParseError
from easy_knowledge_retriever.parsing import Source, can_parse, parser_for
from easy_knowledge_retriever.types import Document

__all__ = ["Outcome", "failures", "read"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file."""

    file: str
    parser: str
    said: str
    """Why it was refused, or what it holds."""
    failed: tuple[str, ...] = ()
    """What was expected and is not so."""
    seconds: float = 0.0
    peak: float = 0.0
    """MiB of memory above what the process took before."""


def failures(document: Document, expected: Mapping[str, Any]) -> list[str]:
    """What one line expects and a document does not hold. Runs of blanks are one, as passages may wrap."""
    page, text = expected.get("page"), document.text
    if page is not None:
        text = "".join(document.text[span.start : span.end] for span in document.pages if span.page == page)
    flat = " ".join(text.split())
    missing = [passage for passage in expected.get("contains", ()) if " ".join(passage.split()) not in flat]
    row = expected.get("row", ())
    if row and not any(_in_order(row, [cell.strip() for cell in line.split("|")]) for line in text.splitlines()):
        missing.append(f"a row of {' | '.join(row)}")
    if "fails" in expected:
        missing.append(f"it must be refused: {expected['fails']}")
    return missing


def _in_order(wanted: Sequence[str], cells: Sequence[str]) -> bool:
    left = iter(cells)
    return all(any(cell == value for cell in left) for value in wanted)


def read(path: Path, expected: Sequence[Mapping[str, Any]]) -> Outcome:
    """Parses one file and looks for what is expected of it."""
    if not can_parse(path):
        return Outcome(path.name, "", "no parser", tuple(str(line.get("contains") or line) for line in expected))
    parser, before, began = parser_for(path), _memory(), time.perf_counter()
    try:
        document = parser.parse(Source(path.name, path.read_bytes()))
    except EKRError as error:
        reasons = [line["fails"] for line in expected if "fails" in line]
        refused = isinstance(error, ParseError) and all(reason in error.message for reason in reasons) and bool(reasons)
        wanted = () if refused else tuple(str(line.get("contains") or line) for line in expected)
        return Outcome(path.name, parser.name, error.message, wanted, time.perf_counter() - began, _memory() - before)
    failed = [failure for line in expected for failure in failures(document, line)]
    said = f"{len(document.text)} characters, {len(document.blocks)} blocks, {len(document.pages)} pages"
    return Outcome(path.name, parser.name, said, tuple(failed), time.perf_counter() - began, _memory() - before)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Reads the folder and shows a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds documents/expected.jsonl")
    folder: Path = parser.parse_args().data / "documents"
    lines = defaultdict[str, list[dict[str, Any]]](list)
    for line in (folder / "expected.jsonl").read_text(encoding="utf-8").splitlines():
        expected = json.loads(line)
        lines[expected["file"]].append(expected)
    table = Table("file", "parser", "found", "s", "MiB", "missing")
    outcomes = []
    for name, expected_of_it in lines.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            outcome = process.submit(read, folder / name, expected_of_it).result()
        outcomes.append(outcome)
        cells = (f"{outcome.seconds:.2f}", f"{outcome.peak:.0f}", "; ".join(outcome.failed)[:60])
        table.add_row(outcome.file, outcome.parser, outcome.said[:60], *cells)
    console = Console()
    console.print(table)
    console.print(f"{sum(not outcome.failed for outcome in outcomes)} of {len(outcomes)} files as expected")


if __name__ == "__main__":
    main()
