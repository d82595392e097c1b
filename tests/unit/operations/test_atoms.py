"""What a chunk border never divides, on documents made of blocks of every kind."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.chunking import chunk_document
from easy_knowledge_retriever.operations.table_heads import TableHeads
from easy_knowledge_retriever.types import Block, BlockKind, Chunk, Document
from tests.unit.operations.test_chunking import Words, check_chunks

Made = tuple[BlockKind, str]
ROWS = "\n".join(["| name | note |", "| --- | --- |", *(f"| part {i} | It is small. Keep it dry. |" for i in range(12))])


def made(*blocks: Made) -> Document:
    """A document of these blocks, a blank line between two."""
    text, found = "", []
    for kind, content in blocks:
        found.append(Block(kind, len(text), len(text) + len(content), level=1 if kind == "heading" else None))
        text += f"{content}\n\n"
    return Document("doc-1", "manual.md", text, "v1", blocks=tuple(found))


def cut(document: Document, size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    return chunk_document(document, Words(), chunk_token_size=size, chunk_overlap_token_size=overlap)


def paragraph(sentences: int) -> Made:
    return "text", " ".join(f"This is sentence {i}." for i in range(sentences))


def holding(chunks: Sequence[Chunk], text: str) -> int:
    return sum(text in chunk.text for chunk in chunks)


def test_a_row_with_several_sentences_is_not_cut() -> None:
    chunks = cut(made(("table", ROWS)), 60)
    assert len(chunks) > 2
    assert [line for chunk in chunks for line in chunk.text.split("\n")] == ROWS.split("\n")


def test_the_head_of_a_table_goes_beside_each_of_its_slices() -> None:
    first, *others = cut(made(("text", "Before."), ("table", ROWS), ("text", "After.")), 60)
    assert first.table_head == ""
    assert others
    assert {chunk.table_head for chunk in others} == {"| name | note |"}
    assert others[0].indexed_text == f"| name | note |\n{others[0].text}"
    assert "name" not in others[0].text


def test_the_head_is_that_of_the_table_around_the_place() -> None:
    text = "| a |\n|---|\n| b |\n\n| c |"
    heads = TableHeads(Document("d", "d", text, "v", (Block("table", 0, 17), Block("table", 19, 24))))
    assert [heads.of(at) for at in (0, 3, 6, 12, 17, 19, 22)] == ["", "", "| a |", "| a |", "", "", ""]


def test_a_first_row_of_hundreds_of_characters_is_no_head() -> None:
    text = f"| {'word ' * 100}|\n| b |"
    assert TableHeads(Document("d", "d", text, "v", (Block("table", 0, len(text)),))).of(len(text) - 3) == ""


def test_a_caption_stays_with_what_it_is_the_caption_of() -> None:
    above: Made = ("caption", "Table 1: Parts.")
    rows: Made = ("table", "| a | b |\n| c | d |")
    below: Made = ("caption", "Figure 1: The pump.")
    for size in range(30, 60):
        chunks = cut(made(paragraph(9), above, rows, paragraph(9), ("image", "![pump](pump.png)"), below, paragraph(9)), size)
        assert holding(chunks, "Parts.\n\n| a | b |") == 1
        assert holding(chunks, "pump.png)\n\nFigure 1") == 1


def test_a_footnote_does_not_end_the_sentence_it_stands_in() -> None:
    note: Made = ("footnote", "1 As amended.")
    for size in range(30, 60):
        chunks = cut(made(paragraph(9), ("text", "The pump and"), note, ("text", "its valve are sold."), paragraph(9)), size)
        assert holding(chunks, "The pump and\n\n1 As amended.\n\nits valve are sold.") == 1


SENTENCES = st.integers(1, 12).map(paragraph)
TABLES: st.SearchStrategy[Made] = st.integers(3, 14).map(lambda rows: ("table", "\n".join(ROWS.split("\n")[:rows])))
CODE: st.SearchStrategy[Made] = st.integers(1, 9).map(lambda lines: ("code", "\n".join(f"call(a. b, {i})" for i in range(lines))))
HEADINGS: st.SearchStrategy[Made] = st.integers(1, 99).map(lambda number: ("heading", f"# Part {number}"))
CAPTIONS: st.SearchStrategy[Made] = st.just(("caption", "Table 1: Parts."))
NOTES: st.SearchStrategy[Made] = st.just(("footnote", "1 As amended."))


@given(
    st.lists(SENTENCES | TABLES | CODE | HEADINGS | CAPTIONS | NOTES, min_size=1, max_size=10),
    st.integers(40, 90),
    st.integers(0, 20),
)
def test_no_border_divides_a_sentence_or_row_that_fits(blocks: list[Made], size: int, overlap: int) -> None:
    document = made(*blocks)
    chunks = cut(document, size, overlap)
    check_chunks(document, chunks)
    whole = set[int]()
    for block in document.blocks:
        text = document.text[block.start : block.end]
        if block.kind in {"table", "code"}:
            whole |= {block.start, *(block.start + i + 1 for i, c in enumerate(text) if c == "\n")}
        else:
            whole |= {block.start, *(block.start + i + 2 for i in range(len(text) - 1) if text[i : i + 2] == ". ")}
    assert {chunk.start for chunk in chunks} <= whole


@given(st.lists(SENTENCES | TABLES | HEADINGS, min_size=1, max_size=12), st.integers(30, 60), st.integers(70, 200))
def test_parents_cover_the_text_and_hold_their_chunks(blocks: list[Made], size: int, parent: int) -> None:
    document = made(*blocks)
    chunks = chunk_document(
        document, Words(), chunk_token_size=size, chunk_overlap_token_size=size // 5, parent_chunk_token_size=parent
    )
    check_chunks(document, chunks)
    spans = list(dict.fromkeys(chunk.parent for chunk in chunks if chunk.parent))
    assert spans == [(part.start, part.end) for part in cut(document, parent)]
    for chunk in chunks:
        assert chunk.parent is not None
        start, end = chunk.parent
        assert start <= chunk.start < chunk.end <= end
