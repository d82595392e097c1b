"""Entities and relations from names."""

from __future__ import annotations

from easy_knowledge_retriever.operations.extraction_local import MAX_RELATIONS, MAX_WORDED, LocalNames
from easy_knowledge_retriever.types import Chunk, Document, Extraction


async def read(text: str, *, title: str = "", rest: str = "") -> Extraction:
    document = Document("d1", "a.md", f"{text}\n\n{rest}", "v", title=title)
    chunk = Chunk("c1", "d1", "a.md", "v", 0, text, 0, len(text), headings=(title,) if title else ())
    outcome = await LocalNames().extract(document, [chunk], lambda *_: None)
    return outcome.extractions[0] if outcome.extractions else Extraction("c1", "d1", "local")


async def test_the_subject_is_related_to_the_names_around_it() -> None:
    extraction = await read(
        "The Silent Moor is a novel written by Ida Brandt. It was printed in Marlow.", title="The Silent Moor"
    )
    assert extraction.source == "local"
    assert [m.name for m in extraction.entities] == ["The Silent Moor", "Ida Brandt", "Marlow"]
    assert [(r.source, r.target, r.keywords) for r in extraction.relations] == [
        ("The Silent Moor", "Ida Brandt", ("novel", "written")),
        ("The Silent Moor", "Marlow", ("printed",)),
    ]


async def test_without_a_title_neighbours_in_a_sentence_are_related() -> None:
    extraction = await read("They say Ida Brandt lived in Marlow. Then Jon Lind left.")
    assert [(r.source, r.target) for r in extraction.relations] == [("Ida Brandt", "Marlow")]


async def test_spans_point_into_the_document() -> None:
    text = "They met Ida Brandt twice, and Ida Brandt left."
    document = Document("d1", "a.md", f"Before. {text}", "v")
    chunk = Chunk("c1", "d1", "a.md", "v", 1, text, 8, 8 + len(text))
    outcome = await LocalNames().extract(document, [chunk], lambda *_: None)
    (mention,) = outcome.extractions[0].entities
    assert document.text[mention.start : mention.end] == "Ida Brandt"


async def test_what_the_document_calls_a_name_elsewhere_is_one_here() -> None:
    assert (await read("Verdel floods.")).entities == ()
    assert [m.name for m in (await read("Verdel floods.", rest="They fear the Verdel.")).entities] == ["Verdel"]


async def test_references_are_left_to_those_who_declare_them() -> None:
    assert [m.name for m in (await read("See Article 6 and Annex III of the Bird Act.")).entities] == ["Bird Act"]


async def test_an_acronym_is_related_to_what_it_stands_for() -> None:
    extraction = await read("They founded the European Bird Union (EBU) there.")
    assert [(r.source, r.target, r.keywords) for r in extraction.relations] == [("European Bird Union", "EBU", ("short for",))]


async def test_relations_are_bounded() -> None:
    names = ", ".join(f"Ida Brandt{chr(97 + n)}" for n in range(20))
    extraction = await read(f"They met {names}.", title="Meeting")
    assert len(extraction.entities) == 20
    assert len(extraction.relations) == MAX_RELATIONS


async def test_only_the_most_telling_relations_have_words() -> None:
    text = (
        "Kell was built by Ida Aa. It was sold to Ida Bb. It was bought by old Ida Cc. It was left by Ida Dd. Eve and Fay came."
    )
    extraction = await read(text, title="Kell")
    worded = [relation.target for relation in extraction.relations if relation.keywords]
    assert worded == ["Ida Aa", "Ida Bb", "Ida Cc", "Ida Dd"]
    assert len(worded) == MAX_WORDED < len(extraction.relations)


async def test_nothing_named_nothing_said() -> None:
    outcome = await LocalNames().extract(
        Document("d1", "a", "nothing here", "v"), [Chunk("c", "d1", "a", "v", 0, "nothing here", 0, 12)], lambda *_: None
    )
    assert outcome.extractions == ()
