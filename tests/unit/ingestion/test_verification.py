"""Each invariant notices the damage it is there for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from easy_knowledge_retriever.ingestion.claiming import claimed_document
from easy_knowledge_retriever.ingestion.verification import INVARIANTS, verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase, knowledge_base, staged_key
from easy_knowledge_retriever.llm.base import InputType
from easy_knowledge_retriever.spending.kept import KeptReplies
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import (
    MemoryDocStatusStorage,
    MemoryGraphStorage,
    MemoryKVStorage,
    MemoryLexicalStorage,
    MemoryVectorStorage,
)
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import (
    DocRecord,
    DocStatus,
    Entity,
    FloatVector,
    FloatVectors,
    LexicalRecord,
    MentionEdge,
    NameRow,
    NameUse,
    Naming,
    PageSpan,
    Relation,
    RelationKey,
    StagedVectors,
    Summary,
    Transcript,
    VectorRecord,
)
from tests.flows.ingesting_base import TEXTS, document, empty_base, ingestion

pytestmark = pytest.mark.damages

Damage = Callable[[KnowledgeBase], Awaitable[None]]
DOCUMENT = document("verdel", TEXTS["verdel"])


async def _ids(kb: KnowledgeBase) -> tuple[str, ...]:
    return (await kb.manifests.get_many([DOCUMENT.id]))[DOCUMENT.id]


async def _change_chunk(kb: KnowledgeBase, **changes: object) -> None:
    first = (await _ids(kb))[0]
    chunk = (await kb.chunks.get_many([first]))[first]
    await kb.chunks.put_many({first: replace(chunk, **changes)})  # type: ignore[arg-type]


async def _change_record(kb: KnowledgeBase, **changes: object) -> None:
    record: DocRecord = (await kb.status.page())[0]
    await kb.status.put([replace(record, **changes)])  # type: ignore[arg-type]


async def chunk_of_another_version(kb: KnowledgeBase) -> None:
    await _change_chunk(kb, version="old")


async def chunk_without_document(kb: KnowledgeBase) -> None:
    await kb.status.delete([DOCUMENT.id])


async def manifest_lost(kb: KnowledgeBase) -> None:
    await kb.manifests.delete_many([DOCUMENT.id])


async def chunk_lost(kb: KnowledgeBase) -> None:
    await kb.chunks.delete_many((await _ids(kb))[:1])


async def vector_lost(kb: KnowledgeBase) -> None:
    await kb.chunk_vectors.delete_many((await _ids(kb))[:1])


async def vector_too_many(kb: KnowledgeBase) -> None:
    await kb.chunk_vectors.put_many([VectorRecord("nobody", np.ones(16, dtype=np.float32))])


async def posting_lost(kb: KnowledgeBase) -> None:
    await kb.lexical.delete_many((await _ids(kb))[:1])


async def other_words_posted(kb: KnowledgeBase) -> None:
    await kb.lexical.put_many([LexicalRecord((await _ids(kb))[0], {"text": ("other",)}, DOCUMENT.id)])


async def ledger_lost(kb: KnowledgeBase) -> None:
    await kb.extractions.delete_many([key async for key, _ in kb.extractions.scan()])


async def entity_of_nobody(kb: KnowledgeBase) -> None:
    await kb.graph.put_entities([Entity("nobody", names=(("Nobody", 1),))])


async def relation_without_end(kb: KnowledgeBase) -> None:
    await kb.graph.put_relations([Relation(RelationKey.of("verdel", "nowhere"))])


async def mention_of_nobody(kb: KnowledgeBase) -> None:
    await kb.graph.put_mentions([MentionEdge("verdel", "chunk-none", DOCUMENT.id)])


async def mention_of_another_weight(kb: KnowledgeBase) -> None:
    edge = (await kb.graph.mentions_of(["verdel"]))["verdel"][0]
    await kb.graph.put_mentions([replace(edge, weight=9.0)])


async def entity_vector_lost(kb: KnowledgeBase) -> None:
    await kb.entity_vectors.delete_many(["verdel"])


async def relation_vector_too_many(kb: KnowledgeBase) -> None:
    await kb.relation_vectors.put_many([VectorRecord("1:xy", np.ones(16, dtype=np.float32))])


async def entity_changed(kb: KnowledgeBase) -> None:
    entity = (await kb.graph.entities(["verdel"]))["verdel"]
    await kb.graph.put_entities([replace(entity, mention_count=99)])


async def relation_changed(kb: KnowledgeBase) -> None:
    pair = (await kb.graph.relation_keys())[0]
    await kb.graph.put_relations([replace((await kb.graph.relations([pair]))[pair], weight=99.0)])


async def summary_of_something_else(kb: KnowledgeBase) -> None:
    await kb.summaries.put_many({"made/x/y": Summary("verdel", (digest("nobody says this"),), "It is.")})


async def summary_wanted_by_nobody(kb: KnowledgeBase) -> None:
    await kb.summaries.put_many({"wanted/x": Summary("verdel")})


async def summary_pending_and_not_listed(kb: KnowledgeBase) -> None:
    entity = (await kb.graph.entities(["verdel"]))["verdel"]
    await kb.graph.put_entities([replace(entity, pending=True)])


async def wrong_count(kb: KnowledgeBase) -> None:
    await _change_record(kb, chunk_count=7)


async def processed_without_version(kb: KnowledgeBase) -> None:
    await _change_record(kb, version="")


async def wrong_order(kb: KnowledgeBase) -> None:
    await _change_chunk(kb, order=5)


async def text_elsewhere(kb: KnowledgeBase) -> None:
    await _change_chunk(kb, start=3)


async def pages_backwards(kb: KnowledgeBase) -> None:
    await _change_chunk(kb, pages=(PageSpan(2, 0, 3), PageSpan(1, 3, 5)))


async def no_fingerprint(kb: KnowledgeBase) -> None:
    await kb.stamps.delete_many(["embedding"])


async def another_fingerprint(kb: KnowledgeBase) -> None:
    await kb.stamps.put_many({"embedding": {"fingerprint": "other", "dimension": 16}})


async def another_dimension(kb: KnowledgeBase) -> None:
    await kb.stamps.put_many({"embedding": {"fingerprint": "fake-bag-of-words/16", "dimension": 15}})


async def naming_changed(kb: KnowledgeBase) -> None:
    await kb.naming.put_many({DOCUMENT.id: Naming({"verdel": NameUse("Person")})})


async def naming_of_nobody(kb: KnowledgeBase) -> None:
    await kb.naming.put_many({"nobody": Naming({"verdel": NameUse()})})


async def name_counted_twice(kb: KnowledgeBase) -> None:
    await kb.names.put_many({"verdel": {"verdel": NameRow(documents=2, looks={"proper": 2})}})


async def name_of_nobody(kb: KnowledgeBase) -> None:
    await kb.names.put_many({"nobody": {"nobody": NameRow(documents=1)}})


async def nul(kb: KnowledgeBase) -> None:
    entity = (await kb.graph.entities(["verdel"]))["verdel"]
    await kb.graph.put_entities([replace(entity, names=(("Ver\0del", 1),))])


async def half_a_character(kb: KnowledgeBase) -> None:
    entity = (await kb.graph.entities(["verdel"]))["verdel"]
    await kb.graph.put_entities([replace(entity, names=(("Ver\ud800", 1),))])


async def parse_of_another_version(kb: KnowledgeBase) -> None:
    await kb.parses.put_many({"other/": DOCUMENT})


async def parse_of_nobody(kb: KnowledgeBase) -> None:
    await kb.parses.put_many({f"{DOCUMENT.digest}/other": replace(DOCUMENT, id="nobody")})


async def reply_about_nobody(kb: KnowledgeBase) -> None:
    await kb.llm_cache.put_many({f"{KeptReplies('nobody').owner}/request": {"text": "yes", "at": 1}})


async def reply_staged_for_nobody(kb: KnowledgeBase) -> None:
    await kb.staged.put_many({staged_key("nobody", "chunk"): Transcript("nobody")})


async def vectors_staged_for_what_is_done(kb: KnowledgeBase) -> None:
    await kb.staged_vectors.put_many({staged_key(DOCUMENT.id, "x"): StagedVectors(DOCUMENT.id, ("a",), b"1234")})


async def chunk_listed_twice(kb: KnowledgeBase) -> None:
    first = await _ids(kb)
    await kb.manifests.put_many({DOCUMENT.id: (*first, first[0])})


async def pages_miscounted(kb: KnowledgeBase) -> None:
    await _change_record(kb, page_count=3)


async def naming_lost(kb: KnowledgeBase) -> None:
    await kb.naming.delete_many([DOCUMENT.id])


async def all_postings_lost(kb: KnowledgeBase) -> None:
    await kb.lexical.drop()


async def graph_lost(kb: KnowledgeBase) -> None:
    await kb.graph.drop()


async def mention_of_an_entity_that_is_not(kb: KnowledgeBase) -> None:
    await kb.graph.put_mentions([MentionEdge("nobody", "chunk-none", DOCUMENT.id)])


SHALLOW: list[tuple[Damage, str]] = [
    (chunk_of_another_version, "I1"),
    (chunk_without_document, "I1"),
    (manifest_lost, "I1"),
    (chunk_lost, "I1"),
    (vector_lost, "I2"),
    (vector_too_many, "I3"),
    (posting_lost, "I4"),
    (ledger_lost, "I5"),
    (chunk_lost, "I5"),
    (entity_of_nobody, "I5"),
    (relation_without_end, "I6"),
    (entity_vector_lost, "I7"),
    (relation_vector_too_many, "I7"),
    (summary_of_something_else, "I9"),
    (summary_wanted_by_nobody, "I9"),
    (summary_pending_and_not_listed, "I9"),
    (wrong_count, "I13"),
    (processed_without_version, "I13"),
    (wrong_order, "I14"),
    (text_elsewhere, "I14"),
    (pages_backwards, "I14"),
    (no_fingerprint, "I16"),
    (another_fingerprint, "I16"),
    (chunk_listed_twice, "I1"),
    (pages_miscounted, "I13"),
    (reply_staged_for_nobody, "I12"),
    (vectors_staged_for_what_is_done, "I12"),
    (all_postings_lost, "I4"),
    (graph_lost, "I5"),
    (nul, "I20"),
    (half_a_character, "I20"),
]
DEEP: list[tuple[Damage, str]] = [
    (other_words_posted, "I4"),
    (mention_of_nobody, "I5"),
    (mention_of_another_weight, "I5"),
    (entity_changed, "I8"),
    (relation_changed, "I8"),
    (naming_changed, "I8"),
    (naming_of_nobody, "I8"),
    (name_counted_twice, "I8"),
    (name_of_nobody, "I8"),
    (another_dimension, "I2"),
    (naming_lost, "I8"),
    (parse_of_another_version, "I10"),
    (parse_of_nobody, "I10"),
    (reply_about_nobody, "I9"),
    (mention_of_an_entity_that_is_not, "I5"),
]


@pytest.fixture
async def kb() -> KnowledgeBase:
    base = await empty_base()
    await ingestion(base).ingest_document(DOCUMENT)
    return base


@pytest.mark.parametrize(("damage", "check"), SHALLOW)
async def test_damage_is_found(kb: KnowledgeBase, damage: Damage, check: str) -> None:
    await damage(kb)
    report = await verify(kb, embedding=FakeEmbeddingService(16))
    assert not report.clean
    assert check in {finding.check for finding in report.findings}
    assert {finding.check for finding in report.findings} <= INVARIANTS.keys()


@pytest.mark.parametrize(("damage", "check"), DEEP)
async def test_damage_is_found_when_one_looks_deeper(kb: KnowledgeBase, damage: Damage, check: str) -> None:
    await damage(kb)
    assert check in {finding.check for finding in (await verify(kb, deep=True)).findings}


async def test_a_whole_base_is_clean(kb: KnowledgeBase) -> None:
    report = await verify(kb, deep=True, embedding=FakeEmbeddingService(16))
    counts = await kb.graph.counts()
    assert report.clean
    assert (report.documents, report.chunks, report.entities, report.relations) == (1, 2, counts.entities, counts.relations)
    assert (await verify(await empty_base(), deep=True)).clean


@pytest.mark.parametrize("damage", [damage for damage, _ in (*SHALLOW, *DEEP)])
async def test_damage_is_mended(kb: KnowledgeBase, damage: Damage) -> None:
    before = await canonical_dump(kb)
    await damage(kb)
    await ingestion(kb).repair(embed=True)
    assert (await verify(kb, deep=True, embedding=FakeEmbeddingService(16))).findings == ()
    assert await canonical_dump(kb) == before


class Broken(FakeEmbeddingService):
    """Is not to be asked."""

    def __init__(self) -> None:
        super().__init__(16)

    async def embed(self, texts: Sequence[str], input_type: InputType) -> FloatVectors:
        raise AssertionError("a model was asked")


NEEDS_A_MODEL: dict[Damage, set[str]] = {
    vector_lost: {"I2"},
    no_fingerprint: {"I16"},
    another_fingerprint: {"I16"},
    another_dimension: {"I2", "I16"},
}


@pytest.mark.parametrize("damage", [damage for damage, _ in (*SHALLOW, *DEEP)])
async def test_without_a_model_only_what_needs_one_is_left(kb: KnowledgeBase, damage: Damage) -> None:
    await damage(kb)
    await ingestion(kb, embedding=Broken()).repair()
    report = await verify(kb, deep=True, embedding=FakeEmbeddingService(16))
    assert {finding.check for finding in report.findings} == NEEDS_A_MODEL.get(damage, set())


async def test_every_invariant_is_broken_by_a_test() -> None:
    alone = {"I15", "I17"}
    assert {check for _, check in (*SHALLOW, *DEEP)} | alone == INVARIANTS.keys()


class Twice(MemoryVectorStorage):
    """Has each row twice."""

    async def ids(self) -> list[str]:
        return 2 * await super().ids()


class Endless(MemoryVectorStorage):
    """Its vectors have no length."""

    async def vectors(self, ids: Sequence[str]) -> dict[str, FloatVector]:
        return {key: np.full_like(vector, np.nan) for key, vector in (await super().vectors(ids)).items()}


@pytest.mark.parametrize(("storage", "check"), [(Twice, "I15"), (Endless, "I17")])
async def test_what_a_storage_should_never_give(storage: type[MemoryVectorStorage], check: str) -> None:
    kb = knowledge_base(MemoryKVStorage(), MemoryDocStatusStorage(), storage(), MemoryLexicalStorage(), MemoryGraphStorage())
    await kb.open()
    await ingestion(kb).ingest_document(DOCUMENT)
    assert check in {finding.check for finding in (await verify(kb, deep=True)).findings}
    await kb.close()


async def test_a_job_that_nobody_does_is_found_and_ended(kb: KnowledgeBase) -> None:
    await _change_record(kb, status=DocStatus.PROCESSING)
    async with claimed_document(kb, DOCUMENT.id):
        assert (await verify(kb)).clean
    assert [finding.check for finding in (await verify(kb)).findings] == ["I12"]
    await ingestion(kb).repair()
    assert (await verify(kb, deep=True)).clean
    assert [record.status for record in await kb.status.page()] == [DocStatus.INTERRUPTED]


async def test_lost_text_is_not_made_up(kb: KnowledgeBase) -> None:
    await kb.documents.delete_many([DOCUMENT.id])
    await ingestion(kb).repair(embed=True)
    report = await verify(kb, deep=True)
    assert "I1" in {finding.check for finding in report.findings}
    assert report.chunks == 2


async def test_what_a_user_decided_stays(kb: KnowledgeBase) -> None:
    rows = (await kb.names.get_many(["verdel"]))["verdel"]
    await kb.names.put_many({"verdel": {key: replace(row, whole=True) for key, row in rows.items()}})
    before = await canonical_dump(kb)
    await name_of_nobody(kb)
    await ingestion(kb).repair()
    assert await canonical_dump(kb) == before


async def test_a_base_of_another_model_is_for_reindex(kb: KnowledgeBase) -> None:
    await vector_lost(kb)
    await ingestion(kb, embedding=FakeEmbeddingService(8)).repair(embed=True)
    assert {finding.check for finding in (await verify(kb, deep=True)).findings} == {"I2"}
