from __future__ import annotations

import json
from typing import Any

import pytest

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.data.notebook import NotebookParser


def _content(*cells: dict[str, Any]) -> bytes:
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


def test_cells_in_order_with_what_they_printed() -> None:
    content = _content(
        {"cell_type": "markdown", "source": ["# Rivers\n", "\n", "See [Kell](kell.md)."]},
        {
            "cell_type": "code",
            "source": "print(1)\n",
            "outputs": [
                {"text": ["1\n"]},
                {"output_type": "error", "ename": "ValueError", "evalue": "no"},
                {"data": {"text/plain": "<Figure>", "image/png": "AAAA"}},
            ],
        },
        {"cell_type": "raw", "source": "raw"},
        {"cell_type": "code", "source": " "},
    )
    document = NotebookParser().parse(Source("a.ipynb", content))
    assert document.title == "Rivers"
    assert [(block.kind, document.text[block.start : block.end]) for block in document.blocks] == [
        ("heading", "# Rivers"),
        ("text", "See [Kell](kell.md)."),
        ("code", "print(1)"),
        ("code", "1"),
        ("code", "ValueError: no"),
        ("code", "<Figure>"),
        ("text", "raw"),
    ]
    [link] = document.links
    assert (document.text[link.start : link.end], link.target) == ("Kell", "kell.md")


def test_long_outputs_are_cut() -> None:
    printed = {"cell_type": "code", "source": "x", "outputs": [{"text": "9" * 10_000}]}
    assert len(NotebookParser().parse(Source("a.ipynb", _content(printed))).text) < 4_100


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"worksheets": []}', b'{"cells": [1]}', b'{"cells": 3}', b"[" * 100_000])
def test_what_is_no_notebook_is_said_to_be_damaged(content: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        NotebookParser().parse(Source("a.ipynb", content))
    assert caught.value.reason == "corrupt"
