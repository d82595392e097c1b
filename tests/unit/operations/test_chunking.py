from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.operations.chunking import apply_chunking, chunk_document, chunking_by_token_size
from easy_knowledge_retriever.text.hashing import chunk_id
from easy_knowledge_retriever.text.tokenizer import Tokenizer
from easy_knowledge_retriever.types import Block, Chunk, Document, PageSpan


class Words:
    """A tokenizer with one token a word and one a blank, so that sizes can be counted by hand."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._tokens: dict[str, int] = {}

    def encode(self, content: str) -> list[int]:
        return [self._token(piece) for piece in re.findall(r"\S+|\s", content)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._pieces[token] for token in tokens)

    def _token(self, piece: str) -> int:
        if piece not in self._tokens:
            self._tokens[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._tokens[piece]


class Folding(Words):
    """A tokenizer that does not give the text back, so that the places of its tokens are guessed."""

    def encode(self, content: str) -> list[int]:
        return super().encode(content.casefold() + "!" * (len(content) % 3))


class Letters:
    """A tokenizer with one token a character."""

    def encode(self, content: str) -> list[int]:
        return list(map(ord, content))

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


HEADING = re.compile(r"^(#{1,6}) .*$", re.MULTILINE)


def document(text: str, *, title: str = "", pages: tuple[PageSpan, ...] = ()) -> Document:
    """A document whose headings are its lines with ``#``."""
    blocks = tuple(Block("heading", m.start(), m.end(), level=len(m.group(1))) for m in HEADING.finditer(text))
    return Document("doc-1", "notes.md", text, "v1", blocks=blocks, title=title, pages=pages, collection="c")


def texts(found: Sequence[dict[str, Any]]) -> list[str]:
    return [chunk["content"] for chunk in found]


class TestByTokenSize:
    def test_positional_order(self) -> None:
        assert texts(chunking_by_token_size(Words(), "a b c d e f", None, False, 1, 5)) == ["a b c", "c d e", "e f"]

    def test_what_a_chunk_says(self) -> None:
        assert chunking_by_token_size(Words(), " a b ", chunk_token_size=3, chunk_overlap_token_size=0) == [
            {"tokens": 3, "content": "a b", "chunk_order_index": 0, "start": 1, "end": 4}
        ]

    def test_no_chunk_only_repeats_the_end(self) -> None:
        assert texts(chunking_by_token_size(Words(), "a b c d", None, False, 4, 5)) == ["a b c", "b c d"]

    def test_nothing_in_nothing_out(self) -> None:
        assert chunking_by_token_size(Words(), "") == chunking_by_token_size(Words(), " \n") == []

    def test_a_marker_stays_with_what_it_opens(self) -> None:
        text = "intro\n## a b c d\n## e"
        assert texts(chunking_by_token_size(Words(), text, "\n## ", True, 0, 3)) == ["intro", "## a b c d", "## e"]
        assert texts(chunking_by_token_size(Words(), text, "\n## ", False, 0, 3)) == ["intro", "## a", "b c", "d", "## e"]

    def test_pages(self) -> None:
        found = chunking_by_token_size(Words(), "a b c\nd e", None, False, 0, 3, pages=[PageSpan(4, 0, 5), PageSpan(5, 6, 9)])
        assert [(c["content"], c["page_start"], c["page_end"]) for c in found] == [("a b", 4, 4), ("c\nd", 4, 5), ("e", 5, 5)]

    @pytest.mark.parametrize(("overlap", "size"), [(5, 5), (-1, 5), (0, 0)])
    def test_sizes_that_cannot_be(self, overlap: int, size: int) -> None:
        with pytest.raises(ConfigError, match="overlap"):
            chunking_by_token_size(Words(), "a", None, False, overlap, size)


class TestAlongTheStructure:
    def test_a_short_document_is_one_chunk(self) -> None:
        (chunk,) = chunk_document(document("\nA short note.\n", title="Note"), Words())
        assert (chunk.text, chunk.start, chunk.end, chunk.tokens, chunk.order) == ("A short note.", 1, 14, 5, 0)
        assert (chunk.document_id, chunk.document_name, chunk.version, chunk.collection) == ("doc-1", "notes.md", "v1", "c")
        assert chunk.headings == ("Note",)
        assert chunk.id == chunk_id("doc-1", "v1", 0, "A short note.")
        assert chunk.next_id == ""

    def test_nothing_in_nothing_out(self) -> None:
        assert chunk_document(document(" \n"), Words()) == ()

    def test_top_sections_are_not_mixed(self) -> None:
        one, two = ("word " * 30).strip(), ("other " * 30).strip()
        chunks = chunk_document(document(f"# One\n\n{one}.\n\n# Two\n\n{two}."), Words(), chunk_token_size=200)
        assert [chunk.headings for chunk in chunks] == [("One",), ("Two",)]
        assert chunks[0].next_id == chunks[1].id

    def test_small_sections_are_joined_under_their_common_heading(self) -> None:
        text = "# Top\n\nIntro.\n\n## A\n\nOne.\n\n## B\n\nTwo."
        (chunk,) = chunk_document(document(text, title="Title"), Words(), chunk_token_size=200)
        assert chunk.text == text
        assert chunk.headings == ("Title", "Top")

    def test_sections_below_a_heading_fill_a_chunk_together(self) -> None:
        body = ("word " * 20).strip() + "."
        text = "\n\n".join(
            f"{mark} {name}\n\n{body}" for mark, name in [("#", "X"), ("##", "A"), ("##", "B"), ("#", "Y"), ("##", "C")]
        )
        chunks = chunk_document(document(text), Words(), chunk_token_size=100, chunk_overlap_token_size=0)
        assert [chunk.headings for chunk in chunks] == [("X",), ("X", "B"), ("Y",)]

    def test_headings_without_text_do_not_hide_the_one_that_has_some(self) -> None:
        body = ("word " * 30).strip() + "."
        long = "A heading of very many words that nobody would call short in any book of rules"
        text = f"# {long}\n\n## Part\n\n### One\n\n{body}\n\n### Two\n\n{body}"
        chunks = chunk_document(document(text), Words(), chunk_token_size=120, chunk_overlap_token_size=0)
        assert [chunk.headings for chunk in chunks] == [(long, "Part", "One"), (long, "Part", "Two")]

    def test_a_title_is_not_said_twice(self) -> None:
        (chunk,) = chunk_document(document("# The *Title*\n\nText.", title="The Title"), Words())
        assert chunk.headings == ("The Title",)

    def test_a_heading_goes_with_its_text(self) -> None:
        long = " ".join(f"Sentence number {i} is here." for i in range(40))
        chunks = chunk_document(document(f"# Top\n\n## Part\n\n{long}"), Words(), chunk_token_size=60, chunk_overlap_token_size=0)
        assert chunks[0].text.startswith("# Top\n\n## Part\n\nSentence number 0")
        assert {chunk.headings for chunk in chunks} == {("Top", "Part")}

    def test_a_long_section_is_cut_at_sentences_that_are_shared(self) -> None:
        text = " ".join(f"This is sentence number {i}." for i in range(12))
        chunks = chunk_document(document(text), Words(), chunk_token_size=44, chunk_overlap_token_size=10)
        assert all(re.fullmatch(r"This is .*\d\.", chunk.text) for chunk in chunks)
        for before, after in pairwise(chunks):
            assert text[after.start : before.end].count("This is") == 1

    def test_a_long_section_is_cut_at_paragraphs_first(self) -> None:
        paragraph = "One two three. Four five six. Seven eight nine."
        text = "\n\n".join([paragraph] * 6)
        chunks = chunk_document(document(text), Words(), chunk_token_size=48, chunk_overlap_token_size=0)
        assert all(chunk.text.endswith("nine.") for chunk in chunks)

    def test_a_heading_at_the_end_goes_with_what_is_before(self) -> None:
        (chunk,) = chunk_document(document("# One\n\n" + "word " * 30 + "\n\n# Two"), Words(), chunk_token_size=120)
        assert chunk.text.endswith("# Two")

    def test_rows_are_not_cut(self) -> None:
        rows = "\n".join(f"| row {i} | value {i} |" for i in range(40))
        chunks = chunk_document(document(rows), Words(), chunk_token_size=60, chunk_overlap_token_size=0)
        assert len(chunks) > 3
        assert [line for chunk in chunks for line in chunk.text.split("\n")] == rows.split("\n")

    def test_page_numbers(self) -> None:
        text = "Page one.\n\nPage two."
        (chunk,) = chunk_document(document(text, pages=(PageSpan(1, 0, 9), PageSpan(2, 11, 20))), Words())
        assert chunk.pages == (PageSpan(1, 0, 9), PageSpan(2, 11, 20))

    def test_no_duplicate_ids_in_a_document_of_repetitions(self) -> None:
        chunks = chunk_document(document("Same words. " * 200), Words(), chunk_token_size=20, chunk_overlap_token_size=5)
        assert len({chunk.id for chunk in chunks}) == len(chunks)


PIECES = st.sampled_from(
    ["word", "Dr. No.", "end. ", "\n", "\n\n", " ", "# H\n", "\n## Sub heading\n\n", "### x\n", "| a | b |\n", "- item\n", "é",
     "東京。", "👩\u200d💻", "e\u0301", "a" * 50, "\u2028", "مرحبا "]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80)
SIZES = st.tuples(st.integers(1, 40), st.integers(0, 39)).map(lambda pair: (pair[0], min(pair[1], pair[0] - 1)))


def pages_of(text: str, size: int) -> tuple[PageSpan, ...]:
    """A page every ``size`` characters, with one character between two."""
    return tuple(PageSpan(i + 1, start, min(start + size - 1, len(text))) for i, start in enumerate(range(0, len(text), size)))


def check_cover(text: str, spans: Sequence[tuple[int, int]]) -> None:
    covered: set[int] = set()
    for (start, end), (again, stop) in pairwise(spans):
        assert start < again
        assert end < stop
    for start, end in spans:
        assert start < end
        assert text[start:end] == text[start:end].strip()
        covered.update(range(start, end))
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered


def check_chunks(doc: Document, chunks: Sequence[Chunk]) -> None:
    check_cover(doc.text, [(chunk.start, chunk.end) for chunk in chunks])
    for order, chunk in enumerate(chunks):
        assert chunk.order == order
        assert chunk.text == doc.text[chunk.start : chunk.end]
        assert chunk.id == chunk_id(doc.id, doc.digest, order, chunk.text)
        on = {
            page.page
            for page in doc.pages
            for i in range(page.start, page.end)
            if chunk.start <= i < chunk.end and doc.text[i].strip()
        }
        assert [page.page for page in chunk.pages] == sorted(on)


@given(TEXTS, SIZES, st.sampled_from([Words(), Letters(), Folding()]), st.integers(3, 40))
def test_chunks_along_the_structure(text: str, sizes: tuple[int, int], tokenizer: Tokenizer, page: int) -> None:
    size, overlap = sizes
    doc = document(text, pages=pages_of(text, page))
    chunks = chunk_document(doc, tokenizer, chunk_token_size=size, chunk_overlap_token_size=overlap)
    check_chunks(doc, chunks)
    for chunk in chunks:
        assert chunk.tokens == len(tokenizer.encode(chunk.text)) <= size
    if not isinstance(tokenizer, Folding):
        for before, after in pairwise(chunks):
            assert len(tokenizer.encode(text[after.start : before.end].strip())) <= overlap


@given(TEXTS, SIZES, st.sampled_from([Words(), Letters(), Folding()]), st.sampled_from([None, "\n", "# "]))
def test_chunks_by_token_size(text: str, sizes: tuple[int, int], tokenizer: Tokenizer, marker: str | None) -> None:
    size, overlap = sizes
    found = chunking_by_token_size(tokenizer, text, marker, False, overlap, size)
    check_cover(text, [(chunk["start"], chunk["end"]) for chunk in found])
    for order, chunk in enumerate(found):
        assert chunk["content"] == text[chunk["start"] : chunk["end"]]
        assert chunk["tokens"] == len(tokenizer.encode(chunk["content"])) <= size
        assert chunk["chunk_order_index"] == order


class TestCustomFunctions:
    DOCUMENT = document("# Top\n\nOne two.\n\n## Sub\n\nThree  four.", title="T", pages=(PageSpan(1, 0, 15), PageSpan(2, 17, 37)))

    def applied(self, function: Any, **options: Any) -> tuple[Chunk, ...]:
        return asyncio.run(apply_chunking(function, self.DOCUMENT, Words(), **options))

    def test_the_default_cuts_along_the_structure(self) -> None:
        assert self.applied(chunking_by_token_size) == chunk_document(self.DOCUMENT, Words())

    def test_the_default_with_a_marker(self) -> None:
        chunks = self.applied(chunking_by_token_size, split_by_character="\n## ")
        assert [(c.text, c.headings, c.page_start) for c in chunks] == [
            ("# Top\n\nOne two.", ("T", "Top"), 1),
            ("## Sub\n\nThree  four.", ("T", "Top", "Sub"), 2),
        ]

    def test_arguments_come_in_their_order(self) -> None:
        seen: list[object] = []

        def function(*arguments: object, **named: object) -> list[dict[str, Any]]:
            seen.extend([*arguments[1:], named])
            return []

        assert self.applied(function, split_by_character="x", chunk_token_size=9, chunk_overlap_token_size=3) == ()
        assert seen == [self.DOCUMENT.text, "x", False, 3, 9, {"pages": self.DOCUMENT.pages}]

    def test_a_function_without_pages_is_not_given_them(self) -> None:
        def function(tokenizer: Any, content: str, by: Any, only: Any, overlap: int, size: int) -> list[dict[str, Any]]:
            return [{"content": content}]

        (chunk,) = self.applied(function)
        assert (chunk.page_start, chunk.page_end, chunk.headings) == (1, 2, ("T", "Top"))

    def test_an_async_function(self) -> None:
        async def function(*_: object, **__: object) -> list[dict[str, Any]]:
            await asyncio.sleep(0)
            return [{"content": "One two.", "tokens": 3, "chunk_order_index": 1, "lang": "en"}, {"content": "# Top"}]

        chunks = self.applied(function)
        assert [(c.text, c.start, c.order, dict(c.extra)) for c in chunks] == [
            ("# Top", 0, 0, {}),
            ("One two.", 7, 1, {"lang": "en"}),
        ]

    def test_an_object_with_an_async_call(self) -> None:
        class Splitter:
            async def __call__(self, *_: object, **__: object) -> list[dict[str, Any]]:
                return [{"content": "One"}]

        assert [c.text for c in self.applied(Splitter())] == ["One"]

    def test_headings_and_pages_of_its_own(self) -> None:
        chunks = self.applied(
            lambda *_, **__: [
                {"content": "One", "heading": "Mine", "page_start": 7, "page_end": 8},
                {"content": "two.", "heading": ["A", "B"], "page_start": 1},
                {"content": "four.", "start": 32, "end": 37, "page_start": 9, "page_end": None},
            ]
        )
        assert [(c.headings, c.page_start, c.page_end) for c in chunks] == [
            (("T", "Mine"), 7, 8),
            (("T", "A", "B"), 1, 1),
            (("T", "Top", "Sub"), 9, 9),
        ]

    def test_content_is_found_despite_other_blanks_and_broken_ends(self) -> None:
        chunks = self.applied(lambda *_: [{"content": "\ufffdOne two.\n## Sub Three four.", "tokens": 99}, {"content": "  "}])
        assert [(c.text, c.tokens) for c in chunks] == [("One two.\n\n## Sub\n\nThree  four.", 14)]

    def test_the_same_content_twice_is_two_places(self) -> None:
        doc = document("same same same")
        chunks = asyncio.run(apply_chunking(lambda *_: [{"content": "same"}] * 3, doc, Words()))
        assert [c.start for c in chunks] == [0, 5, 10]

    @pytest.mark.parametrize(
        ("returned", "complaint"),
        [
            (None, "NoneType, not a list"),
            ("text", "str, not a list"),
            (["text"], "str as chunk 0"),
            ([{"text": "One"}], "no 'content'"),
            ([{"content": b"One"}], "'content' with bytes"),
            ([{"content": "One", "page_start": "1"}], "'page_start' with str"),
            ([{"content": "One", "boxes": [1, 2]}], "'boxes' with list"),
            ([{"content": "One", 3: "x"}], "key 3"),
            ([{"content": "Nowhere"}], "does not have: 'Nowhere'"),
            ([{"content": "One", "start": 0, "end": 3}], "start 0 and end 3"),
            ([{"content": "One", "start": 0, "end": 999}], "start 0 and end 999"),
        ],
    )
    def test_what_is_no_chunk(self, returned: object, complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint):
            self.applied(lambda *_: returned)
