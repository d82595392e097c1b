"""Jupyter notebooks: their text as Markdown, their code, and what it printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.parsing.markdown import parse_markdown
from easy_knowledge_retriever.parsing.pieces import Piece, assembled, pieces_of
from easy_knowledge_retriever.text.cleaning import clean, decode

__all__ = ["NotebookParser"]

_MOST_OUTPUT: Final = 4_000
"""Characters of what one cell printed."""


class NotebookParser(DocumentParser):
    """Cells in order. Pictures are left out, and long outputs cut."""

    name = "notebook"
    version = "1"
    suffixes = (".ipynb",)

    def parsed(self, source: Source) -> Parsed:

        notebook = json.loads(decode(source.content, source.name).text)
        pieces = [piece for cell in notebook["cells"] for piece in _cell(cell)]
        title = next((piece.text.lstrip("# ") for piece in pieces if piece.kind == "heading"), "")
        return assembled(pieces, title=title)


def _cell(cell: Mapping[str, Any]) -> Iterator[Piece]:
    text = clean(_joined(cell.get("source", ""))).text
    if cell["cell_type"] == "markdown":
        parsed = parse_markdown(text)
        yield from pieces_of(text, parsed.blocks, parsed.links)
    elif text.strip():
        yield Piece("code" if cell["cell_type"] == "code" else "text", text.strip("\n").rstrip())
    for output in cell.get("outputs", ()):
        raised = f"{output['ename']}: {output.get('evalue', '')}" if output.get("ename") else ""
        printed = clean(_joined(output.get("text") or output.get("data", {}).get("text/plain", "") or raised)).text.strip()
        if printed:
            yield Piece("code", printed if len(printed) <= _MOST_OUTPUT else f"{printed[:_MOST_OUTPUT]} …")


def _joined(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
