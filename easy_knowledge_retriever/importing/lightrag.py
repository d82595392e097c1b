"""Takes an index of LightRAG or of the earlier EKR into a base: its documents, its chunks, and what was paid for them.

Each document is ingested as any other, cut where it was cut there; what the model said of each chunk is not asked for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from easy_knowledge_retriever.events import Observer
from easy_knowledge_retriever.importing.lightrag_index import BROKEN, Fact, LightRAGIndex, OldChunk, OldDocument
from easy_knowledge_retriever.importing.lightrag_records import take_replies
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService, InputType
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.extraction_format import ParsedExtraction, Records
from easy_knowledge_retriever.operations.extraction_local import LocalNames
from easy_knowledge_retriever.operations.placing import Placing
from easy_knowledge_retriever.operations.references import DeclaredReferences
from easy_knowledge_retriever.parsing.reading import text_document
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.text.cleaning import clean
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.tokenizer import Tokenizer
from easy_knowledge_retriever.types import Chunk, Document, Extraction, FloatVector, FloatVectors, IngestReport

__all__ = ["ImportReport", "LightRAGImport"]

_SAMPLE: Final = 3
"""Texts that are embedded again to see whether the stored vectors are of the same model."""
_SAME_MODEL: Final = 0.99
"""Least cosine of such a text and its stored vector."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was carried over from another system, and what could not be."""

    documents: tuple[IngestReport, ...]
    chunks: int
    from_replies: int
    """Chunks whose extraction is what the model answered."""
    from_graph: int
    """Chunks whose extraction was taken back from the merged graph, as no reply about them was kept."""
    unread: int
    """Chunks that nothing is known of; ``rag.retry`` has a model read them."""
    vectors: int
    """Chunks whose vector was taken over."""
    losses: tuple[str, ...]
    """What could not be carried over, one line a kind."""


class LightRAGImport:
    """Takes one index into one base. A second run of the same index changes nothing, so an interrupted one is run again.

    Args:
        index: What was read.
        collection: Where the documents go.
    """

    def __init__(self, index: LightRAGIndex, collection: str = "") -> None:
        self._index = index
        self._losses: Counter[str] = Counter()
        self._texts = {document.id: _text_of(document, collection) for document in index.documents}
        self._said = self._sayings()

    async def into(
        self, kb: KnowledgeBase, settings: Settings, embedding: EmbeddingService, tokenizer: Tokenizer, observer: Observer
    ) -> ImportReport:
        """Ingests every document.

        Raises:
            IngestionError: One was not ingested; those before it are there.
            EmbeddingMismatchError: The base holds vectors of another model.
        """
        vectors = await self._vectors(embedding)
        known = KnownVectors(embedding, vectors)
        reports = []
        for old in self._index.documents:
            flow = Ingestion(
                kb,
                settings,
                known,
                tokenizer=tokenizer,
                chunking_func=_Cut(old.chunks),
                extractors=(DeclaredReferences(), LocalNames(), _Owned(old.chunks, self._said)),
                observer=observer,
            )
            reports.append(await flow.ingest_document(self._texts[old.id]))
        return self._report(reports, known.used)

    def _report(self, reports: Sequence[IngestReport], vectors: int) -> ImportReport:
        chunks = [chunk.id for document in self._index.documents for chunk in document.chunks]
        answered, said = self._index.replies.keys() & set(chunks), self._said.keys()
        losses = [f"{count} {what}" for what, count in sorted(self._losses.items())]
        if self._index.unfinished:
            losses.append(f"{len(self._index.unfinished)} documents that were not finished there: ingest them")
        if self._index.other_replies:
            losses.append(f"{self._index.other_replies} kept answers to questions and replies about no known chunk")
        return ImportReport(
            documents=tuple(reports),
            chunks=len(chunks),
            from_replies=len(answered & said),
            from_graph=len(said - answered),
            unread=len(set(chunks) - said),
            vectors=vectors,
            losses=(*losses, *self._index.problems),
        )

    def _sayings(self) -> Mapping[str, ParsedExtraction]:
        """Chunk id → what is known to be said in it."""
        chunks = {chunk.id for document in self._index.documents for chunk in document.chunks}
        records = {key: Records() for key in chunks}
        for key, replies in self._index.replies.items():
            if key in records:
                take_replies(replies, records[key])
        answered = self._index.replies.keys() & chunks
        told = {key: _told(records[key].parsed(ended=True)) for key in answered}
        for fact in self._index.facts:
            self._give(fact, [key for key in fact.chunk_ids if key in chunks], told, records)
        parsed = {key: taken.parsed(ended=True) for key, taken in records.items()}
        self._losses["records that no reader understands"] += sum(found.rejected for found in parsed.values())
        self._losses += Counter()  # what was not lost is not listed
        return {key: found for key, found in parsed.items() if not found.is_empty or key in answered}

    def _give(
        self, fact: Fact, chunks: Sequence[str], told: Mapping[str, frozenset[frozenset[str]]], records: Mapping[str, Records]
    ) -> None:
        """Gives a fact of the merged graph back to the chunks it came from, unless their replies say it."""
        if not chunks:
            self._losses["facts of the graph that stand in no chunk"] += 1
            return
        silent = [key for key in chunks if key not in told]
        if not silent and any(_ends(fact) in told[key] for key in chunks):
            return
        if len(chunks) > 1 and fact.descriptions:
            self._losses["merged descriptions that were given back to their chunks in order, which may be another"] += 1
        owners = silent or chunks
        for place, key in enumerate(owners):
            own = fact.descriptions[place:] if place == len(owners) - 1 else fact.descriptions[place : place + 1]
            if fact.target:
                records[key].relation(fact.source, fact.target, [fact.keywords], fact.weight / len(chunks), " ".join(own))
            else:
                records[key].entity(fact.source, fact.type, " ".join(own))

    async def _vectors(self, embedding: EmbeddingService) -> Mapping[str, FloatVector]:
        """Text → vector, if the stored vectors are what this model makes of the texts."""
        stored = {
            chunk.text: self._index.vectors[chunk.id]
            for document in self._index.documents
            for chunk in document.chunks
            if chunk.id in self._index.vectors
        }
        sample = list(stored)[:: len(stored) // _SAMPLE + 1]
        if not sample or stored[sample[0]].size != embedding.embedding_dim:
            return {}
        made = await embedding.embed(sample, "document")
        kept = np.stack([stored[text] / np.linalg.norm(stored[text]) for text in sample])
        return stored if float(np.min(np.sum(made * kept, axis=1))) >= _SAME_MODEL else {}


class KnownVectors(EmbeddingService):
    """Asks for no vector that is there already.

    Args:
        service: Makes the others.
        vectors: Text → vector of the same model.
    """

    def __init__(self, service: EmbeddingService, vectors: Mapping[str, FloatVector]) -> None:
        self._service = service
        self._vectors = vectors
        self.used = 0
        """How many were there."""

    @property
    def embedding_dim(self) -> int:
        return self._service.embedding_dim

    @property
    def fingerprint(self) -> str:
        return self._service.fingerprint

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        found = [self._vectors.get(text) if input_type == "document" else None for text in texts]
        missing = [text for text, vector in zip(texts, found, strict=True) if vector is None]
        made = iter(await self._service.embed(missing, input_type) if missing else ())
        self.used += len(texts) - len(missing)
        rows = [next(made) if vector is None else vector / np.linalg.norm(vector) for vector in found]
        return np.array(rows, dtype=np.float32).reshape(len(texts), self.embedding_dim)


class _Cut:
    """Cuts a document where it was cut before: a chunking function.

    Args:
        chunks: The chunks as they were, in order.
    """

    def __init__(self, chunks: Sequence[OldChunk]) -> None:
        self._chunks = chunks

    def __call__(self, tokenizer: Tokenizer, content: str, *_: object) -> list[dict[str, Any]]:
        return [{"content": _clean(chunk.text), "chunk_order_index": order} for order, chunk in enumerate(self._chunks)]


class _Owned(Extractor):
    """Says of each chunk what was paid for before.

    Args:
        chunks: The chunks as they were, in order.
        said: Old chunk id → what it says.
    """

    def __init__(self, chunks: Sequence[OldChunk], said: Mapping[str, ParsedExtraction]) -> None:
        self._chunks = chunks
        self._said = said

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        found = []
        for chunk in chunks:
            said = self._said.get(self._chunks[chunk.order].id)
            if said is not None:
                placing = Placing(chunk)
                entities = tuple(placing.entity(mention) for mention in said.entities)
                relations = tuple(placing.relation(mention) for mention in said.relations)
                found.append(Extraction(chunk.id, document.id, "llm", entities, relations))
        progress(len(chunks), len(chunks))
        return ExtractionOutcome(tuple(found))


def _clean(text: str) -> str:
    """A chunk as it stands in a clean text, without what cutting by tokens broke at its ends."""
    return clean(text).text.strip().strip(BROKEN).strip()


def _text_of(old: OldDocument, collection: str) -> Document:
    """The document with its text; put together from its chunks where they are no slices of the text that was kept."""
    parts = [_clean(chunk.text) for chunk in old.chunks]
    if old.text.strip():
        document = text_document(old.text, name=old.name, document_id=old.id, collection=collection)
        if all(part in document.text for part in parts):
            return document
    return text_document("\n\n".join(parts), name=old.name, document_id=old.id, collection=collection)


def _told(found: ParsedExtraction) -> frozenset[frozenset[str]]:
    """The ends of what was read: one folded name of an entity, two of a relation."""
    names: Iterable[tuple[str, ...]] = [
        *((mention.name,) for mention in found.entities),
        *((mention.source, mention.target) for mention in found.relations),
    ]
    return frozenset(frozenset(map(entity_key, ends)) for ends in names)


def _ends(fact: Fact) -> frozenset[str]:
    return frozenset(entity_key(name) for name in (fact.source, fact.target) if name)
