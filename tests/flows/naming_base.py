"""Sentences with names in them, and a reader that knows what each of them says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.types import Chunk, Document, EntityMention, Extraction, RelationMention

SENTENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "The European Union (EU) met.": (("European Union", "Organization"), ("EU", "Organization")),
    "The European University (EU) taught Ada Lind.": (("European University", "Organization"), ("Ada Lind", "Person")),
    "EU law binds Ostrania.": (("EU", "UNKNOWN"), ("Ostrania", "Location")),
    "The European Union binds Ostrania.": (("The European Union", "Organization"), ("Ostrania", "Location")),
    "E.U. rules are long.": (("E.U.", "Organization"),),
    "The Beatles sang in Ostrania.": (("The Beatles", "Organization"), ("Ostrania", "Location")),
    "Some Beatles records were sold to Ada Lind.": (("Beatles", "Organization"), ("Ada Lind", "Person")),
    "Mercury is a god of Ostrania.": (("Mercury", "Person"), ("Ostrania", "Location")),
    "Mercury is a planet, said Ada Lind.": (("Mercury", "NaturalObject"), ("Ada Lind", "UNKNOWN")),
    "Mercury shone over Ostrania.": (("Mercury", "UNKNOWN"), ("Ostrania", "Location")),
    "Ada Lind (1901-1980) wrote about Mercury.": (("Ada Lind", "Person"), ("Mercury", "Concept")),
    "Ada Lind (1960-2020) sang with The Beatles.": (("Ada Lind", "Person"), ("The Beatles", "Organization")),
    "Dr. Ada Lind taught neural networks.": (("Dr. Ada Lind", "Person"), ("neural networks", "Concept")),
    "A neural network learns.": (("neural network", "Concept"),),
    "Some call it E-mail, some email.": (("E-mail", "Artifact"), ("email", "Artifact")),
}
"""Each with the names and types that are read in it."""


class Known(Extractor):
    """Reads the sentences it knows: each name with the sentence as its description, neighbours as related."""

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        return ExtractionOutcome(tuple(self._extraction(chunk) for chunk in chunks))

    def _extraction(self, chunk: Chunk) -> Extraction:
        entities: list[EntityMention] = []
        relations: list[RelationMention] = []
        for sentence, names in SENTENCES.items():
            if sentence in chunk.text:
                entities += [EntityMention(name, kind, f"Read in: {sentence.lower()}") for name, kind in names]
                relations += [RelationMention(a, b, sentence, ("near",), 0.3) for (a, _), (b, _) in pairwise(names)]
        return Extraction(chunk.id, chunk.document_id, "llm", tuple(entities), tuple(relations))
