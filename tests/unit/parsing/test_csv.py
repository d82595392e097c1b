from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import Source
from easy_knowledge_retriever.parsing.data.csv import CsvParser

words = st.text("abc XYZ,'\n", min_size=1, max_size=8).filter(str.strip)


def _text(content: bytes, name: str = "a.csv") -> str:
    return CsvParser().parse(Source(name, content)).text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    lines = [["river", "km"], ["Kell", "212"], ["Brenn", "1,5"]]
    content = "\r\n".join(delimiter.join(f'"{c}"' if delimiter in c else c for c in line) for line in lines)
    assert _text(content.encode()) == "| river | km |\n| Kell | 212 |\n| Brenn | 1,5 |"


def test_tabs_in_a_tsv_whatever_else_there_is() -> None:
    assert _text(b"a,b\tc\n1,5\t2\n", "a.tsv") == "| a,b | c |\n| 1,5 | 2 |"


def test_a_column_of_words_is_one_column() -> None:
    assert _text(b"river\nKell\n\nBrenn, the small one\n") == "| river |\n| Kell |\n| Brenn | the small one |"


def test_shift_jis() -> None:
    assert _text("名前,住所\n三木英子,大阪\n".encode("shift_jis")) == "| 名前 | 住所 |\n| 三木英子 | 大阪 |"


def test_a_quotation_mark_that_nothing_closes_is_named() -> None:
    with pytest.raises(ParseError, match="field larger") as caught:
        _text(b'a,b\n"' + b"x" * (2 << 20))
    assert caught.value.reason == "corrupt"


def test_a_long_cell_is_read_whoever_else_reads() -> None:
    content = b"a,b\n" + b"x" * 200_000 + b",1\n"
    with pytest.raises(ParseError):
        _text(b'a,b\n"' + b"x" * (2 << 20))
    assert len(_text(content)) > 200_000
    assert csv.field_size_limit() >= 1 << 20


@given(st.lists(st.lists(words, min_size=2, max_size=2), min_size=2, max_size=6))
def test_cells_come_back(rows: list[list[str]]) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    flat = ["| " + " | ".join(" ".join(cell.split()) for cell in row) + " |" for row in rows]
    assert _text(file.getvalue().encode()) == "\n".join(flat)
