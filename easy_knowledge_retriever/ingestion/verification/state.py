"""A base in memory, as the checks look at it."""

from __future__ import annotations

from dataclasses import dataclass

from easy_knowledge_retriever.ingestion.stamps import Stamps, stamps_of
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.operations.merging import Evidence, evidence_in
from easy_knowledge_retriever.operations.resolution import Identifier, Names
from easy_knowledge_retriever.types import Chunk, DocRecord, Document, Entity, Extraction, Naming, Relation, RelationKey

__all__ = ["State", "read_state"]


@dataclass(frozen=True, slots=True)
class State:
    """Everything but vectors, postings and mentions."""

    stamps: Stamps
    records: dict[str, DocRecord]
    documents: dict[str, Document]
    manifests: dict[str, tuple[str, ...]]
    chunks: dict[str, Chunk]
    ledger: tuple[Extraction, ...]
    naming: dict[str, Naming]
    names: Names
    identify: Identifier
    evidence: Evidence
    """What the ledger says."""
    entities: dict[str, Entity]
    relations: dict[RelationKey, Relation]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """The chunks of a document that exist, in order."""
        return [self.chunks[key] for key in self.manifests.get(document_id, ()) if key in self.chunks]


async def read_state(kb: KnowledgeBase) -> State:
    """Reads it. Give a snapshot, or nothing of it need agree."""
    records = {record.id: record for record in await kb.status.page()}
    ledger = tuple([extraction async for _, extraction in kb.extractions.scan()])
    file_paths = {key: record.name for key, record in records.items()}
    names = Names(dict([row async for row in kb.names.scan()]))
    naming = dict([row async for row in kb.naming.scan()])
    identify = Identifier(names, {document_id: said.uses for document_id, said in naming.items()})
    return State(
        stamps=await stamps_of(kb),
        records=records,
        documents=dict([row async for row in kb.documents.scan()]),
        manifests=dict([row async for row in kb.manifests.scan()]),
        chunks=dict([row async for row in kb.chunks.scan()]),
        ledger=ledger,
        naming=naming,
        names=names,
        identify=identify,
        evidence=evidence_in(((e, file_paths.get(e.document_id, "")) for e in ledger), identify),
        entities=await kb.graph.entities(await kb.graph.keys()),
        relations=await kb.graph.relations(await kb.graph.relation_keys()),
    )
