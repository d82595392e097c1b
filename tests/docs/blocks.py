"""The Python blocks of a Markdown page."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.style.source import ROOT

_BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>\w+) -->\n)?^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    code: str
    needs: str


def pages() -> list[Path]:
    """Every page a reader may open."""
    return [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted((ROOT / "docs").rglob("*.md"))


def blocks(page: Path) -> Iterator[Block]:
    """Its Python blocks, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        yield Block(page, line, match["code"], match["needs"] or "")


def run(page_blocks: list[Block]) -> dict[str, object]:
    """Runs the blocks of a page one after the other, as a notebook would; gives the names they left."""
    names: dict[str, object] = {"__name__": "page"}
    with asyncio.Runner() as runner:
        for block in page_blocks:
            code = compile(
                "\n" * block.line + block.code, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, names))
            else:
                exec(code, names)
    return names
