"""Declared references of the EU AI Act in two languages: ``python -m evaluation.references --data DIR``.

The official XHTML links its footnotes and the acts they cite, and none of the references in its text. What it does have is an
anchor for every unit, and it exists in two languages that say the same. So a reference found in a unit of one language is taken

- to be right if the same unit of the other language yields it, too (precision), and to be missed if only the other one does
  (recall);
- to lead somewhere if the XHTML has an anchor for it. References into other acts lead nowhere here and are not counted.

What both languages miss alike is not seen by this, so the words are counted, too: of all words such as *Article* or *annexe*
that a number follows, the share inside a reference that was found.

Then the chunks: of those that stand in one article or annex, the share whose heading path names it, in the French PDF and in the
English units put together. Where an article stands in the PDF is known from its text, not from its heading.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from easy_knowledge_retriever.operations.chunking import chunk_document
from easy_knowledge_retriever.operations.references import cross_references, own_names
from easy_knowledge_retriever.parsing.reading import parse_source, read_source, text_document
from easy_knowledge_retriever.text.reference_rules import RULES
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer
from easy_knowledge_retriever.types import Chunk, Document
from evaluation.datasets import read_jsonl

__all__ = ["Unit", "agreement", "anchor_of", "main", "named", "part_of", "places", "words_read"]

_ENGLISH: Final = {"Annexe": "Annex", "Chapitre": "Chapter", "Considérant": "Recital", "Tableau": "Table"}
_PREFIX: Final = {"Article": "art_", "Annex": "anx_", "Chapter": "cpt_", "Recital": "rct_"}
_ACT: Final = re.compile(r"\d{2,4}/\d{1,4}")
_TREATY: Final = re.compile(r"TFU?E[U]?|fonctionnement|Functioning")
_ANCHOR: Final = re.compile(r'id="([a-z]{3}_\w+)"')
_WORDS: Final = re.compile(rf"(?i)(?<!\w)(?:{'|'.join(map(re.escape, RULES.kinds))})\s(?=\d|[IVXL]+\b)")
_SNIPPET: Final = 40
"""Letters and digits by which the beginning and the end of a unit are found in a PDF."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A recital, article or annex."""

    id: str
    label: str
    title: str
    chapter: str
    text: str


def load_units(path: Path) -> dict[str, Unit]:
    """The units of one language, by id."""
    return {
        row["id"]: Unit(row["id"], row["label"], row["title"] or "", row["chapter"] or "", row["text"])
        for row in read_jsonl(path)
    }


def part_of(name: str) -> str:
    """A reference as it is compared between languages: ``Annex III``, ``Article 10 of 1025/2012``."""
    kind, number, *rest = name.split()
    tail = " ".join(rest)
    act = _ACT.search(tail)
    if act:
        of = f" of {act.group()}"
    elif tail:
        of = " of TFEU" if _TREATY.search(tail) else " of TEU"
    else:
        of = ""
    return f"{_ENGLISH.get(kind, kind)} {number}{of}"


def agreement(units: Mapping[str, Unit], others: Mapping[str, Unit]) -> tuple[int, int, int]:
    """References of all units, those that the same unit of the other language yields, and how many that one yields."""
    mine = {(unit.id, part) for unit in units.values() for part in _parts(unit)}
    theirs = {(unit.id, part) for unit in others.values() for part in _parts(unit)}
    return len(mine), len(mine & theirs), len(theirs)


def _parts(unit: Unit) -> set[str]:
    return {part_of(found.name) for found in cross_references(unit.text)}


def anchor_of(part: str) -> str:
    """The anchor that the XHTML has for a part of the act itself; empty for others."""
    kind, number, *rest = part.split()
    return _PREFIX[kind] + number if kind in _PREFIX and not rest else ""


def words_read(text: str) -> tuple[int, int]:
    """Words for numbered parts before a number, and how many of them stand in a reference that was found."""
    spans = [(found.start, found.end) for found in cross_references(text)]
    words = [match.start() for match in _WORDS.finditer(text)]
    return len(words), sum(any(start <= word < end for start, end in spans) for word in words)


def places(document: Document, units: Iterable[Unit]) -> dict[str, tuple[int, int]]:
    """Where each unit stands in a document that has them in this order, after its recitals; absent if it is not found."""
    offsets = [place for place, character in enumerate(document.text) if character.isalnum()]
    letters = "".join(document.text[place] for place in offsets)
    found: dict[str, tuple[int, int]] = {}
    adopted = max(map(document.text.find, RULES.adopted))
    at = bisect_left(offsets, adopted)
    for unit in units:
        text = "".join(filter(str.isalnum, unit.text))
        first = letters.find(text[:_SNIPPET], at)
        last = letters.find(text[-_SNIPPET:], max(first, at))
        if first >= 0 and last >= 0:
            at = last + len(text[-_SNIPPET:])
            found[unit.id] = offsets[first], offsets[at - 1] + 1
    return found


def named(chunks: Sequence[Chunk], units: Mapping[str, Unit], where: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Chunks that stand in one unit only, and how many of them have its label as the name of a heading."""
    counted = right = 0
    for chunk in chunks:
        inside = [key for key, (start, end) in where.items() if start < chunk.end and chunk.start < end]
        if len(inside) == 1:
            counted += 1
            label = own_names(units[inside[0]].label)[-1].casefold()
            right += any(label == name.casefold() for heading in chunk.headings for name in own_names(heading))
    return counted, right


def in_one(units: Iterable[Unit]) -> str:
    """The articles as one Markdown text with their chapters."""
    lines, chapter = ["# AI Act"], ""
    for unit in units:
        if unit.chapter != chapter:
            chapter = unit.chapter
            lines.append(f"## {chapter}")
        lines += [f"### {unit.label} — {unit.title}", unit.text]
    return "\n\n".join(lines)


def _share(right: int, of: int) -> str:
    return f"{100 * right / max(of, 1):.1f} % ({right} of {of})"


async def run(data: Path) -> None:
    """Measures and prints."""
    folder = data / "regulation/ai_act"
    languages = {name: load_units(folder / f"units_{name}.jsonl") for name in ("en", "fr")}
    anchors = set(_ANCHOR.findall((folder / "ai_act_en.xhtml").read_text(encoding="utf-8")))
    for name, other in (("en", "fr"), ("fr", "en")):
        mine, both, theirs = agreement(languages[name], languages[other])
        own = [anchor for unit in languages[name].values() for part in sorted(_parts(unit)) if (anchor := anchor_of(part))]
        counts = [words_read(unit.text) for unit in languages[name].values()]
        print(f"{name}: precision {_share(both, mine)}, recall {_share(both, theirs)}")
        print(f"{name}: anchor there {_share(sum(anchor in anchors for anchor in own), len(own))}")
        print(f"{name}: words read {_share(sum(read for _, read in counts), sum(words for words, _ in counts))}")
    source = await read_source(folder / "ai_act_fr.pdf")
    pdf = await parse_source(source)
    english = [unit for unit in languages["en"].values() if not unit.id.startswith("rct")]
    markdown = text_document(in_one(english), name="act.md")
    for name, document in (("fr", pdf), ("en", markdown)):
        units = {key: unit for key, unit in languages[name].items() if not key.startswith("rct")}
        where = places(document, units.values())
        print(f"{name}: units found in the text {_share(len(where), len(units))}")
        for size in (400, 1200):
            chunks = chunk_document(document, TiktokenTokenizer(), chunk_token_size=size)
            counted, right = named(chunks, units, where)
            print(f"{name}: chunks of {size} that name their unit {_share(right, counted)}, all chunks {len(chunks)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.references", description="Declared references of the AI Act.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    asyncio.run(run(parser.parse_args(arguments).data))


if __name__ == "__main__":
    main()
