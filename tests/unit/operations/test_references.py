"""What documents declare of themselves and of each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.references import (
    DeclaredReferences,
    cross_references,
    defined_terms,
    is_numbered,
    own_names,
    subject,
)
from easy_knowledge_retriever.types import Block, Chunk, Document, Extraction, Link


def chunk(text: str, *, headings: tuple[str, ...] = (), start: int = 0, order: int = 0) -> Chunk:
    return Chunk("c1", "d1", "acts/act.md", "v", order, text, start, start + len(text), headings=headings)


async def read(text: str, *, headings: tuple[str, ...] = (), **changes: Any) -> Extraction:
    document = Document("d1", changes.pop("name", "acts/act.md"), text, "v", **changes)
    outcome = await DeclaredReferences().extract(document, [chunk(text, headings=headings, order=1)], lambda *_: None)
    return outcome.extractions[0] if outcome.extractions else Extraction("c1", "d1", "declared")


def names(text: str) -> list[str]:
    return [found.name for found in cross_references(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see Article 6(2)", ["Article 6"]),
        ("Articles 8 to 11 apply", ["Article 8", "Article 9", "Article 10", "Article 11"]),
        ("Articles 8, 9 and 12 apply", ["Article 8", "Article 9", "Article 12"]),
        ("referred to in Annex III", ["Annex III"]),
        ("Annexes I and II", ["Annex I", "Annex II"]),
        ("l’article 6, paragraphe 2", ["Article 6"]),
        ("les articles 5 à 7", ["Article 5", "Article 6", "Article 7"]),
        ("à l'annexe III", ["Annexe III"]),
        ("recital (12) and considérant 13", ["Recital 12", "Considérant 13"]),
        ("Table 4 and Fig. 2", ["Table 4", "Figure 2"]),
        ("Section 3.1 says", ["Section 3.1"]),
        ("Section A of Annex I", ["Section A", "Annex I"]),
        ("Artikel 5 und Anhang I", ["Artikel 5", "Anhang I"]),
        ("an article a day, and articles of faith", []),
        ("Article 6 of Directive 2001/95/EC", ["Article 6 of Directive 2001/95/EC"]),
        ("Article 6(1) of Regulation (EU) 2016/679", ["Article 6 of Regulation (EU) 2016/679"]),
        ("l’article 9 du règlement (UE) 2016/679", ["Article 9 du règlement (UE) 2016/679"]),
        ("Article 16 TFEU", ["Article 16 TFEU"]),
        ("Article 6 of this Regulation", ["Article 6"]),
        ("Articles 5, 6, and 7 apply", ["Article 5", "Article 6", "Article 7"]),
        ("Article 5 or 50, Article 7 and 3 others", ["Article 5", "Article 50", "Article 7"]),
        ("aux annexes I et II", ["Annexe I", "Annexe II"]),
        ("Article 10(1) of Regulation (EU) No 1025/2012", ["Article 10 of Regulation (EU) No 1025/2012"]),
        ("Annex I to Directive (EU) 2020/1828", ["Annex I to Directive (EU) 2020/1828"]),
        ("l’article 6 du traité sur l’Union européenne", ["Article 6 du traité sur l’Union européenne"]),
        ("équations (3) et (4), Eqs. (1) and (2)", ["Équation 3", "Équation 4", "Equation 1"]),
        ("l’article premier", ["Article 1"]),
        ("Articles 1 to 900", ["Article 1", "Article 900"]),
    ],
)
def test_cross_references(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("New Moor (1995 film)", ("New Moor (1995 film)", "New Moor")),
        ("The Moor", ("The Moor", "Moor")),
        ("Article 6 — Classification", ("Article 6 — Classification", "Article 6")),
        ("ANNEXE III Systèmes", ("ANNEXE III Systèmes", "Annexe III")),
        ("Article premier Objet", ("Article premier Objet", "Article 1")),
        ("Recital (12)", ("Recital (12)", "Recital", "Recital 12")),
        ("Ida Brandt, 3rd Baroness Kell", ("Ida Brandt, 3rd Baroness Kell", "Ida Brandt")),
        ("Lund, Sweden", ("Lund, Sweden",)),
        ("", ()),
    ],
)
def test_what_a_heading_is_called(heading: str, expected: tuple[str, ...]) -> None:
    assert own_names(heading) == expected


def test_definitions() -> None:
    english = list(defined_terms("For this, ‘provider’ means a person that sells; ‘user’ means another."))
    assert [(term.name, term.description) for term in english] == [
        ("provider", "‘provider’ means a person that sells"),
        ("user", "‘user’ means another."),
    ]
    french = list(defined_terms("1) «fournisseur»: une personne qui vend;\n2) suite"))
    assert [(term.name, term.description) for term in french] == [("fournisseur", "«fournisseur»: une personne qui vend")]
    short = list(defined_terms("the European Bird Board (the ‘Board’) and others (hereinafter referred to as ‘the Friends’)"))
    assert [term.name for term in short] == ["Board", "the Friends"]
    line = "Plumage: the feathers that cover a bird as a whole."
    assert list(defined_terms(line)) == []
    assert [term.name for term in defined_terms(line, glossary=True)] == ["Plumage"]


def test_the_subject_of_a_chunk() -> None:
    assert subject(chunk("x", headings=("The Act", "Chapter I", "Article 6 Rules", "Scope"))) == "Article 6"
    assert subject(chunk("x", headings=("The Moor", "Plants"))) == "The Moor"
    assert subject(chunk("x")) == ""
    assert [is_numbered(name) for name in ("Article 6", "article", "Articulate", "Table")] == [True, True, False, True]


async def test_titles_and_headings_are_what_a_chunk_is_about() -> None:
    extraction = await read("Rules.", headings=("The Moor", "Article 6 Rules"))
    assert [mention.name for mention in extraction.entities] == ["The Moor", "Moor", "Article 6 Rules", "Article 6"]
    assert extraction.relations == ()


async def test_references_are_relations_of_the_subject() -> None:
    text = "As Article 6 says, Annex III and Article 9 apply."
    extraction = await read(text, headings=("The Act", "Article 6 Rules"))
    relations = [(r.source, r.target, r.keywords) for r in extraction.relations]
    assert relations == [("Article 6", "Annex III", ("refers to",)), ("Article 6", "Article 9", ("refers to",))]
    mention = next(m for m in extraction.entities if m.name == "Annex III")
    assert (mention.type, text[mention.start : mention.end]) == ("Reference", "Annex III")


async def test_links_between_documents_and_to_headings() -> None:
    text = "See the moor, the fens and the web, or above."
    links = (
        Link(8, 12, "../moor.md#top"),
        Link(18, 22, "#The%20Fens"),
        Link(31, 34, "https://example.org/a.md"),
        Link(39, 44, "http://[broken"),
    )
    blocks = (Block("heading", 0, 3, level=1),)
    document_text = text
    extraction = await read(document_text, headings=("Act",), links=links, blocks=blocks)
    assert [m.name for m in extraction.entities] == ["Act", "moor.md"]
    assert [(r.source, r.target, r.keywords) for r in extraction.relations] == [("Act", "moor.md", ("links to",))]


async def test_a_link_within_the_document_names_its_heading() -> None:
    text = "# The Fens\nRead on there."
    blocks = (Block("heading", 0, 10, level=1),)
    extraction = await read(text, links=(Link(11, 15, "#the-fens"),), blocks=blocks)
    assert [m.name for m in extraction.entities] == ["The Fens"]


async def test_the_first_chunk_of_a_page_carries_its_path() -> None:
    document = Document("d1", "acts/act.md", "Text.", "v")
    outcome = await DeclaredReferences().extract(document, [chunk("Text.")], lambda *_: None)
    assert [m.name for m in outcome.extractions[0].entities] == ["acts/act.md"]


async def test_recitals_stand_in_the_preamble_only() -> None:
    text = "Whereas:\n(1) Birds sing in the morning.\n(2) They sleep at night.\nHAVE ADOPTED THIS:\n(3) No recital this is."
    extraction = await read(text)
    assert [(m.name, m.description) for m in extraction.entities] == [
        ("Recital 1", "Birds sing in the morning."),
        ("Recital 2", "They sleep at night."),
    ]
    french = await read("considérant ce qui suit:\n(1) Les oiseaux chantent le matin.\nONT ADOPTÉ")
    assert [m.name for m in french.entities] == ["Considérant 1"]


async def test_a_defined_term_of_several_words_is_found_again() -> None:
    text = "‘song bird’ means a bird that sings. Later, every Song Bird sleeps."
    document = Document("d1", "act.pdf", text, "v")
    chunks = [chunk(text[:37], order=0), Chunk("c2", "d1", "act.pdf", "v", 1, text[37:], 37, len(text))]
    outcome = await DeclaredReferences().extract(document, chunks, lambda *_: None)
    assert [(e.chunk_id, [m.name for m in e.entities]) for e in outcome.extractions] == [
        ("c1", ["song bird"]),
        ("c2", ["Song Bird"]),
    ]


async def test_a_long_document_is_read_in_a_thread_with_signs_of_life() -> None:
    chunks = [Chunk(f"c{n}", "d1", "a.pdf", "v", n, "See Article 6.", 0, 14) for n in range(250)]
    seen: list[tuple[int, int]] = []
    outcome = await DeclaredReferences().extract(
        Document("d1", "a.pdf", "See Article 6.", "v"), chunks, lambda *d: seen.append(d)
    )
    assert len(outcome.extractions) == 250
    assert seen == [(100, 250), (200, 250), (250, 250)]


@given(st.text(st.sampled_from("Article 6123(),IVXLCto and‘’«»:means\n"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    for found in [*cross_references(text), *defined_terms(text, glossary=True)]:
        assert 0 <= found.start <= found.end <= len(text)


def test_a_heading_of_a_hundred_thousand_words_is_nobodys_name() -> None:
    heading = "Word " * 100_000
    assert own_names(heading) == ()
    assert subject(Chunk("c", "d", "d", "v", 0, "text", 0, 4, headings=(heading,))) == ""
