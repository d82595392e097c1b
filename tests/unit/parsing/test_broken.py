"""Files that were damaged on their way: a typed error or a document, for every format and any damage."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pytest
from docx import Document as WordDocument
from openpyxl import Workbook
from pptx import Presentation

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import PARSERS, Source
from easy_knowledge_retriever.parsing.plain_text import PlainTextParser
from tests.support.pdf import pdf_bytes
from tests.support.zips import zipped
from tests.unit.parsing import test_epub, test_odf, test_xml


def _saved(made: Any) -> bytes:
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def _word() -> bytes:
    word = WordDocument()
    word.add_heading("Rivers", 1)
    word.add_table(2, 2).cell(0, 0).text = "Kell"
    return _saved(word)


def _book() -> bytes:
    book = Workbook()
    book.create_sheet("Rivers").append(["Kell", 212, 0.5])
    return _saved(book)


def _show() -> bytes:
    show = Presentation()
    show.slides.add_slide(show.slide_layouts[1]).shapes.title.text = "Rivers"
    return _saved(show)


WHOLE: dict[str, Callable[[], bytes]] = {
    ".docx": _word,
    ".xlsx": _book,
    ".pptx": _show,
    ".odt": lambda: test_odf._content("text", "<text:p>It flows.</text:p>"),
    ".epub": lambda: zipped(test_epub.MEMBERS),
    ".xml": test_xml.ARTICLE.encode,
    ".pdf": lambda: pdf_bytes([[("It flows north.", 12)]]),
    ".ipynb": lambda: b'{"cells": [{"cell_type": "markdown", "source": ["# Rivers"], "outputs": []}]}',
}


@pytest.mark.parametrize("suffix", WHOLE)
def test_any_damage_ends_in_a_document_or_a_typed_error(suffix: str) -> None:
    whole, chance = WHOLE[suffix](), random.Random(suffix)
    assert PARSERS[suffix].parse(Source(f"a{suffix}", whole)).text
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 20)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        cut = bytes(damaged[: chance.choice([len(damaged), chance.randrange(len(damaged))])])
        try:
            document = PARSERS[suffix].parse(Source(f"a{suffix}", cut))
        except ParseError:
            continue
        assert all(0 <= block.start < block.end <= len(document.text) for block in document.blocks)


def test_what_a_reader_raises_is_kept_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(self: PlainTextParser, source: Source) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(PlainTextParser, "parsed", stumbles)
    with pytest.raises(ParseError, match=r"a\.txt.*IndexError") as caught:
        PlainTextParser().parse(Source("a.txt", b"It flows."))
    assert (caught.value.reason, type(caught.value.__cause__)) == ("corrupt", IndexError)
