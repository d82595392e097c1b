"""Small documents, a way to cut them, and a base written out in full for comparison."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from easy_knowledge_retriever.events import Observer, ignore
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base
from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, PaidExtractor, Progress, Transcripts
from easy_knowledge_retriever.operations.summarization import Summarizer
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.text.hashing import digest, document_id
from easy_knowledge_retriever.text.tokenizer import Tokenizer
from easy_knowledge_retriever.types import (
    Chunk,
    Document,
    EntityMention,
    Extraction,
    ExtractionSource,
    RelationMention,
    Reply,
    Transcript,
)

TEXTS = {
    "verdel": "The Verdel is a river of Ostrania. It rises near Mount Kell.\n\nIn Marlow, Ida Brandt crossed the Verdel.",
    "kell": "Mount Kell is a mountain of Ostrania. Ida Brandt climbed Mount Kell.",
    "brandt": "Ida Brandt was a botanist. She lived in Marlow near the Verdel and wrote “The Silent Moor”.",
    "verdel, again": "The Verdel is the longest river of Ostrania. It floods Marlow every April.",
    "brandt, again": "Ida Brandt was a botanist and a climber. Jon Lind taught Ida Brandt in Lund.",
}


def document(name: str, text: str, title: str = "", **changes: Any) -> Document:
    """A document of one text."""
    made = Document(document_id(name), name, text, digest(text), title=title or name.title())
    return replace(made, **changes)


def by_paragraph(tokenizer: Tokenizer, content: str, *_: object) -> list[dict[str, Any]]:
    """A chunking function: a chunk a paragraph."""
    found, at = [], 0
    for paragraph in content.split("\n\n"):
        if paragraph.strip():
            row = {"content": paragraph, "start": at, "end": at + len(paragraph), "tokens": len(tokenizer.encode(paragraph))}
            found.append(row)
        at += len(paragraph) + 2
    return found


class Words:
    """A tokenizer that counts words."""

    def encode(self, content: str) -> list[int]:
        return [len(word) for word in content.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join("x" * token for token in tokens)


async def empty_base() -> KnowledgeBase:
    """A base in memory, open."""
    kb = knowledge_base(
        MemoryKVStorage(), MemoryDocStatusStorage(), MemoryVectorStorage(), MemoryLexicalStorage(), MemoryGraphStorage()
    )
    await kb.open()
    return kb


def ingestion(
    kb: KnowledgeBase,
    *,
    settings: Settings | None = None,
    embedding: EmbeddingService | None = None,
    extractors: Sequence[Extractor] | None = None,
    llm_extractor: PaidExtractor | None = None,
    summarizer: Summarizer | None = None,
    observer: Observer = ignore,
) -> Ingestion:
    """An ingestion into this base with fakes."""
    return Ingestion(
        kb,
        settings or Settings(),
        embedding or FakeEmbeddingService(16),
        tokenizer=Words(),
        chunking_func=by_paragraph,
        extractors=extractors,
        llm_extractor=llm_extractor,
        summarizer=summarizer,
        observer=observer,
    )


async def written_out(kb: KnowledgeBase) -> dict[str, Any]:
    """Everything a base holds, times and the count of commits left out."""
    found: dict[str, Any] = {}
    for table in ("documents", "chunks", "manifests", "extractions", "staged", "parses"):
        found[table] = {key: asdict(v) if not isinstance(v, tuple) else v async for key, v in getattr(kb, table).scan()}
    found["stamps"] = {key: value async for key, value in kb.stamps.scan() if key != "generation"}
    found["status"] = [asdict(replace(record, created_at="", updated_at="", track_id="")) for record in await kb.status.page()]
    for index in ("chunk_vectors", "entity_vectors", "relation_vectors"):
        storage = getattr(kb, index)
        vectors = await storage.vectors(await storage.ids())
        found[index] = {key: vectors[key].tolist() for key in sorted(vectors)}
    found["postings"] = await kb.lexical.ids()
    keys = await kb.graph.keys()
    found["entities"] = [asdict(entity) for _, entity in sorted((await kb.graph.entities(keys)).items())]
    pairs = await kb.graph.relation_keys()
    found["relations"] = [asdict(relation) for _, relation in sorted((await kb.graph.relations(pairs)).items())]
    mentions = await kb.graph.mentions_of(keys)
    found["mentions"] = sorted([tuple(asdict(edge).values()) for edges in mentions.values() for edge in edges])
    loaded: dict[str, Any] = json.loads(json.dumps(found))
    return loaded


class Described(PaidExtractor):
    """Says of each capitalised word the sentence it stands in, and of each two neighbours that they are near.

    ``read`` holds the chunks it read; one that was read and kept before is not read again.
    """

    def __init__(self, source: ExtractionSource = "local") -> None:
        self._source = source
        self.read: list[str] = []

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], progress: Progress, transcripts: Transcripts | None = None
    ) -> ExtractionOutcome:
        for chunk in chunks:
            if transcripts is None or not transcripts.of(chunk).complete:
                self.read.append(chunk.id)
                if transcripts is not None:
                    await transcripts.keep(chunk, Transcript(document.id, ((Reply(chunk.text),),), complete=True))
        return ExtractionOutcome(tuple(self._extraction(chunk) for chunk in chunks))

    def _extraction(self, chunk: Chunk) -> Extraction:
        entities, relations = [], []
        for sentence in chunk.text.split("."):
            names = [word for word in sentence.split() if word[0].isupper()]
            entities += [EntityMention(name, "Thing", sentence.strip()) for name in names]
            relations += [RelationMention(a, b, sentence.strip(), ("near",), 0.3) for a, b in pairwise(names) if a != b]
        return Extraction(chunk.id, chunk.document_id, self._source, tuple(entities), tuple(relations))
