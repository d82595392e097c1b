"""True and false claims made of the sentences of a question set, for measuring what checks them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Chunk, Passage
from evaluation.datasets import Dataset

__all__ = ["FALSE_KINDS", "TRUE_KINDS", "Sample", "parallel_samples", "samples", "windows"]

TRUE_KINDS = ("copied", "words dropped", "halves exchanged", "first half", "two halves")
FALSE_KINDS = ("of another passage", "its sentence gone", "addition", "number", "number of the passage", "negation")

WINDOW = 8
"""Sentences of a passage."""
OTHERS = 9
"""Other passages in the context of a claim."""

_LIST_NUMBER = re.compile(r"^\W*(?:\d{1,3}|[a-z]|[ivx]+)[.)]\s*")
_NUMBER = re.compile(r"\d+")
_NEGATION = re.compile(r"\b(?:not|no|never|without|ne|pas|aucune?|sans|non)\b|n['’]", re.IGNORECASE)
_NEGATIVES = (
    (" shall ", " shall not "), (" is ", " is not "), (" are ", " are not "), (" may ", " may not "), (" was ", " was not "),
    (" were ", " were not "), (" est ", " n'est pas "), (" sont ", " ne sont pas "), (" doit ", " ne doit pas "),
    (" peut ", " ne peut pas "), (" était ", " n'était pas "),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """A claim that cites passage 1 of a context."""

    kind: str
    claim: str
    passages: tuple[Passage, ...]


def windows(dataset: Dataset) -> list[tuple[str, str]]:
    """The texts of a set in pieces of :data:`WINDOW` sentences, each with its title."""
    found = []
    for item in dataset.items:
        spans = sentences(item.text)
        for at in range(0, len(spans), WINDOW):
            piece = spans[at : at + WINDOW]
            found.append((item.title, item.text[piece[0][0] : piece[-1][1]]))
    return found


def passage(number: int, heading: str, text: str) -> Passage:
    """A text as a passage under a number."""
    return Passage(number, Chunk(f"c{number}", "d", "d", "v", number, text, 0, len(text), headings=(heading,)))


def samples(dataset: Dataset, count: int, seed: int = 1) -> list[Sample]:
    """Claims of every kind made of so many passages, always the same ones."""
    chance = random.Random(seed)
    pieces = windows(dataset)
    chosen = [piece for piece in pieces if len(_plain(piece[1])) >= 2]
    chance.shuffle(chosen)
    found: list[Sample] = []
    for heading, text in chosen[:count]:
        others = [passage(n, *piece) for n, piece in enumerate(chance.sample(pieces, OTHERS), start=2)]
        found += _samples(heading, text, others, chance)
    return found


def _samples(heading: str, text: str, others: Sequence[Passage], chance: random.Random) -> Iterator[Sample]:
    own = _plain(text)
    claim = chance.choice(own)
    foreign = _plain(others[0].chunk.text) or _plain(others[1].chunk.text)
    context = (passage(1, heading, text), *others)
    for kind, made in (*_true(claim, own, chance), *_false(claim, text, foreign, chance)):
        yield Sample(kind, made, context)
    rest = " ".join(sentence for sentence in own if sentence != claim)
    yield Sample("its sentence gone", claim, (passage(1, heading, rest), *others))


def _true(claim: str, own: Sequence[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    words = claim.rstrip(".").split()
    half = len(words) // 2
    yield "copied", claim
    yield (
        "words dropped",
        " ".join(word for word in words if chance.random() > 0.3 or _NUMBER.search(word) or _NEGATION.match(word)),
    )
    yield "halves exchanged", " ".join(words[half:] + words[:half])
    yield "first half", " ".join(words[:half])
    others = [sentence for sentence in own if sentence != claim]
    if others:
        second = chance.choice(others).split()
        yield "two halves", f"{' '.join(words[:half])}, {' '.join(second[: len(second) // 2])}"


def _false(claim: str, text: str, foreign: Sequence[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    if foreign:
        other = chance.choice(foreign)
        yield "of another passage", other
        words = other.split()
        yield "addition", f"{claim.rstrip('.')}, {' '.join(words[: len(words) // 2])}"
    number = _NUMBER.search(claim)
    if number:
        yield "number", _with(claim, number, str(int(number[0]) + chance.choice((1, 2, 3, 10))))
        own = sorted(set(_NUMBER.findall(text)) - {number[0]})
        if own:
            yield "number of the passage", _with(claim, number, chance.choice(own))
    if not _NEGATION.search(claim):
        yield from (("negation", claim.replace(a, b, 1)) for a, b in [pair for pair in _NEGATIVES if pair[0] in claim][:1])


def parallel_samples(one: Dataset, other: Dataset, count: int, seed: int = 3) -> list[Sample]:
    """Claims in the language of one set about passages of the other, which holds the same units in another language.

    Sentences are paired by their place where a unit has equally many in both. ``translated`` claims have their sentence in
    the passage, ``its sentence gone`` have those around it, ``of another passage`` have none.
    """
    chance = random.Random(seed)
    texts = {item.id: item for item in other.items}
    pairs: list[tuple[str, str, list[str], str]] = []
    for item in one.items:
        mine, theirs = _all(item.text), _all(texts[item.id].text) if item.id in texts else []
        if len(mine) == len(theirs):
            pairs += [
                (claim, theirs[at], theirs[max(0, at - 4) : at + 4], texts[item.id].title)
                for at, claim in enumerate(mine)
                if 8 <= len(claim.split()) <= 60
            ]
    chance.shuffle(pairs)
    found: list[Sample] = []
    for claim, right, around, heading in pairs[:count]:
        strange = chance.choice(pairs)
        found.append(Sample("translated", claim, (passage(1, heading, "\n\n".join(around)),)))
        rest = [sentence for sentence in around if sentence != right]
        if rest:
            found.append(Sample("its sentence gone", claim, (passage(1, heading, "\n\n".join(rest)),)))
        found.append(Sample("of another passage", claim, (passage(1, strange[3], "\n\n".join(strange[2])),)))
    return found


def _all(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentences(text)]


def _plain(text: str) -> list[str]:
    """The sentences of usual length, without the numbers of list items."""
    return [_LIST_NUMBER.sub("", sentence) for sentence in _all(text) if 8 <= len(sentence.split()) <= 60]


def _with(text: str, match: re.Match[str], new: str) -> str:
    return f"{text[: match.start()]}{new}{text[match.end() :]}"
