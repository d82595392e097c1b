from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.text.cleaning import clean, decode
from easy_knowledge_retriever.text.markup import plain_heading


@pytest.mark.parametrize(
    ("text", "cleaned", "warnings"),
    [
        ("plain\ttext\n", "plain\ttext\n", ()),
        ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g", "a\nb\nc\nd\ne\nf\ng", ()),
        ("a\0b\x1bc\x9d", "abc", ("3 control characters removed",)),
        ("\ufeffa\U000e0041\U000e007f", "a", ()),
        ("a\u202eb", "ab", ("1 control character removed",)),
        ("a\ud800b", "a\ufffdb", ("1 half surrogate pair replaced",)),
        ("é 東京 👩\u200d💻 \u00a0 \u200f\u00ad", "é 東京 👩\u200d💻 \u00a0 \u200f\u00ad", ()),
    ],
)
def test_clean(text: str, cleaned: str, warnings: tuple[str, ...]) -> None:
    assert (clean(text).text, clean(text).warnings) == (cleaned, warnings)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_clean_text_can_go_anywhere(text: str) -> None:
    cleaned = clean(text).text
    cleaned.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", cleaned)
    assert clean(cleaned).text == cleaned


SENTENCE = "Größe, naïve, “quoted” – déjà vu. And a longer run of plain words to see."


@pytest.mark.parametrize(
    ("text", "encoding", "warned"),
    [
        (SENTENCE, "utf-8", ""),
        (SENTENCE, "utf-8-sig", ""),
        (SENTENCE, "utf-16", ""),
        (SENTENCE, "utf-32", ""),
        (SENTENCE, "utf-16-le", "UTF-16-LE"),
        (SENTENCE, "utf-16-be", "UTF-16-BE"),
        (SENTENCE, "utf-32-be", "UTF-32-BE"),
        (SENTENCE, "utf-32-le", "UTF-32-LE"),
        (SENTENCE, "cp1252", "Windows-1252"),
        ("don’t say “yes”, it’s", "cp1252", "Windows-1252"),
        ("äöüß", "latin-1", "Windows-1252"),
        ("名前,年齢\n佐藤太郎,30\n", "cp932", "Shift-JIS"),
        ("日本語のテキスト、カタカナ。", "cp932", "Shift-JIS"),
        ("東京大学の試験", "utf-16-le", "UTF-16-LE"),
        ("ascii", "ascii", ""),
        ("", "ascii", ""),
    ],
)
def test_decode(text: str, encoding: str, warned: str) -> None:
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert bool(decoded.warnings) == bool(warned)
    assert warned in "".join(decoded.warnings)


def test_utf8_with_a_broken_place_stays_utf8() -> None:
    decoded = decode(("déjà vu, " * 20).encode() + b"\xff" + "été".encode())
    assert decoded.text == "déjà vu, " * 20 + "\ufffdété"
    assert decoded.warnings == ("1 places are broken UTF-8 and were replaced",)
    assert decode("déjà".encode()[:-1]).text == "déj\ufffd"


@pytest.mark.parametrize("content", [bytes(range(256)), b"\x00\x01\x02\x03" * 50, b"\x7fELF\x02\x01\x01\x00\x05\x06\x80\x90" * 9])
def test_what_is_no_text_is_refused(content: bytes) -> None:
    with pytest.raises(ParseError, match=r"'a\.bin' is not text") as caught:
        decode(content, "a.bin")
    assert caught.value.reason == "encoding"


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(content: bytes) -> None:
    try:
        decoded = decode(content)
    except ParseError as error:
        assert error.reason == "encoding"
    else:
        decoded.text.encode("utf-8")


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("## The *Big* `C++` [link](x) thing ##", "The Big C++ link thing"),
        ("Title\n=====", "Title"),
        ("# A*B*C and snake_case_name", "A*B*C and snake_case_name"),
        ("**Bold** __too__ C#", "Bold too C#"),
        ("# <u>Under</u> a < b > c", "Under a < b > c"),
        ("CHAPTER II\nProhibited  practices", "CHAPTER II Prohibited practices"),
    ],
)
def test_plain_heading(heading: str, words: str) -> None:
    assert plain_heading(heading) == words
