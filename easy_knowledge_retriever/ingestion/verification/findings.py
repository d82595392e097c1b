"""What is checked, and what a check says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["INVARIANTS", "Finding", "VerifyReport", "differing"]

INVARIANTS: Final = {
    "I1": "every chunk belongs to the live version of its document, and every live version has its chunks",
    "I2": "every chunk has one vector of the store's dimension",
    "I3": "every vector of a chunk has its chunk",
    "I4": "postings and chunks match one to one, document frequencies recount equal",
    "I5": "every entity, relation and mention stands in a living extraction, and every extraction in the graph",
    "I6": "both ends of every relation exist",
    "I7": "vectors of entities and relations match their rows",
    "I8": "entities, relations and names are what their living mentions make of them",
    "I9": "replies and summaries are kept of what is still said only, and what wants a summary is listed",
    "I10": "every cached parse is of a version that its document has or waits for",
    "I12": "nothing is staged but for a version on its way in, and what is on its way in has a job",
    "I13": "counts in the status equal the counted rows",
    "I14": "chunks are in order, pages ascend, spans lie inside the text",
    "I15": "every id is unique",
    "I16": "the fingerprint of the embedding model equals the configuration",
    "I17": "vectors are finite and not zero",
    "I20": "text is valid UTF-8 without NUL",
}
"""Name of each check and what it holds the base to. I11, I18 and I19 are about the ledger of a client that sends files, about
owners and about grants; they come with these."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An invariant that does not hold for one row."""

    check: str
    """A key of :data:`INVARIANTS`."""
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found, and what a repair left of it."""

    findings: tuple[Finding, ...]
    """What does not hold; after a repair, what could not be mended."""
    documents: int
    chunks: int
    entities: int
    relations: int
    repaired: tuple[Finding, ...] = ()
    """What was found before a repair and is not found any more."""

    @property
    def clean(self) -> bool:
        """Whether every invariant holds."""
        return not self.findings


def differing(check: str, name: str, found: Collection[str], expected: Collection[str]) -> Iterator[Finding]:
    """A finding for each key that only one of two sides has."""
    for key in sorted(set(expected) - set(found)):
        yield Finding(check, key, f"its {name} is missing")
    for key in sorted(set(found) - set(expected)):
        yield Finding(check, key, f"there is a {name} of it that stands for nothing")
