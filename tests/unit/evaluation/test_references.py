"""What the measurement of declared references compares."""

from __future__ import annotations

from easy_knowledge_retriever.types import Chunk, Document
from evaluation.references import Unit, agreement, anchor_of, in_one, named, part_of, places, words_read


def unit(key: str, label: str, text: str) -> Unit:
    return Unit(key, label, "On birds", "I", text)


ENGLISH = {"art_1": unit("art_1", "Article 1", "See Articles 2 and 3."), "art_2": unit("art_2", "Article 2", "See Annex I.")}
FRENCH = {"art_1": unit("art_1", "Article premier", "Voir l’article 2."), "art_2": unit("art_2", "Article 2", "Voir l’annexe I.")}


def test_references_are_compared_across_languages() -> None:
    assert agreement(ENGLISH, FRENCH) == (3, 2, 2)
    assert agreement(FRENCH, ENGLISH) == (2, 2, 3)
    assert part_of("Annexe III") == "Annex III"
    assert part_of("Article 6 du traité sur l’Union européenne") == part_of("Article 6 TEU") == "Article 6 of TEU"
    assert part_of("Article 16 du traité sur le fonctionnement de l’Union européenne") == part_of("Article 16 TFEU")
    assert part_of("Article 10 of Regulation (EU) No 1025/2012") == "Article 10 of 1025/2012"
    assert [anchor_of(part) for part in ("Article 6", "Annex III", "Article 6 of TEU", "Table 1")] == ["art_6", "anx_III", "", ""]


def test_every_word_before_a_number_counts() -> None:
    assert words_read("Article 6 and Section 2 of Annex III.") == (3, 3)
    assert words_read("The article is long. Article 12345 is none.") == (1, 0)


def test_chunks_that_name_their_unit() -> None:
    text = "ONT ADOPTÉ Article 1 See Articles 2 and 3. Article 2 See  Annex I."
    where = places(Document("d", "d", text, "v"), ENGLISH.values())
    assert [text[slice(*span)] for span in where.values()] == ["See Articles 2 and 3", "See  Annex I"]
    chunks = [
        Chunk("a", "d", "d", "v", 0, text[:40], 0, 40, headings=("Article 1 On birds",)),
        Chunk("b", "d", "d", "v", 1, text[45:], 45, len(text), headings=("Article 1 On birds",)),
        Chunk("c", "d", "d", "v", 2, text, 0, len(text), headings=()),
    ]
    assert named(chunks, ENGLISH, where) == (2, 1)
    assert "### Article 2 — On birds\n\nSee Annex I." in in_one(ENGLISH.values())
