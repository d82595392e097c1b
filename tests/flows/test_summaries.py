"""Long descriptions are summarised, a summary of something else is never shown, and no failure of it fails a document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.errors import BudgetExceeded, ConfigError, StorageError, UpstreamAuth, UpstreamUnavailable
from easy_knowledge_retriever.ingestion import summarizing
from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService, Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService
from easy_knowledge_retriever.testing.server import OpenAITestServer
from easy_knowledge_retriever.types import Chunk, DocStatus, Document, Entity, EntityMention, Extraction, RelationMention
from tests.flows.ingesting_base import Words, by_paragraph, document, empty_base

LIMITS = SummaryLimits(fragments=3, max_tokens=40, context_size=100, recommended=20)


class Sayings(Extractor):
    """A paragraph ``X: what is said`` describes X; ``X, Y: what is said`` describes both and how they are related."""

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        return ExtractionOutcome(tuple(self._extraction(chunk) for chunk in chunks))

    def _extraction(self, chunk: Chunk) -> Extraction:
        subjects, _, text = chunk.text.partition(": ")
        names = subjects.split(", ")
        entities = tuple(EntityMention(name, "Thing", "" if len(names) > 1 else text) for name in names)
        relations = (RelationMention(names[0], names[1], text, ("near",)),) if len(names) > 1 else ()
        return Extraction(chunk.id, chunk.document_id, "llm", entities, relations)


def told(messages: Sequence[Message]) -> str:
    """A summary that shows what it was made of."""
    lines = messages[-1].content.splitlines()
    return "All told: " + " + ".join(sorted(line.removeprefix("- ") for line in lines if line.startswith("- ")))


def flow(
    kb: KnowledgeBase,
    model: LLMService | None,
    *,
    embedding: EmbeddingService | None = None,
    limits: SummaryLimits = LIMITS,
    settings: Settings | None = None,
) -> Ingestion:
    return Ingestion(
        kb,
        settings or Settings(force_llm_summary_on_merge=3),
        embedding or FakeEmbeddingService(16),
        tokenizer=Words(),
        chunking_func=by_paragraph,
        extractors=(Sayings(),),
        summarizer=Summarizer(model, "fake", limits, lambda text: len(text.split())) if model else None,
    )


def saying(name: str, *sayings: str) -> Document:
    return document(name, "\n\n".join(sayings))


FIRST = saying("first", "Kell: a peak.", "Kell: it is high.", "Kell, Ida: she climbed it.")
SECOND = saying("second", "Kell: it is cold.", "Ida: a botanist.")


async def fact(kb: KnowledgeBase, key: str = "kell") -> Entity:
    return (await kb.graph.entities([key]))[key]


async def rows(kb: KnowledgeBase) -> dict[str, Any]:
    return {key: summary async for key, summary in kb.summaries.scan()}


async def is_clean(kb: KnowledgeBase) -> bool:
    report = await verify(kb, deep=True, settings=Settings(force_llm_summary_on_merge=3))
    assert report.findings == ()
    return report.clean


async def test_what_is_said_often_is_summarised_and_found_by_its_summary() -> None:
    kb, model, embedding = await empty_base(), FakeLLMService(told), FakeEmbeddingService(64)
    ingestion = flow(kb, llm_stack(model), embedding=embedding)
    first = await ingestion.ingest_document(FIRST)
    assert (model.calls, first.warnings, (await fact(kb)).summary) == (0, (), "")
    second = await ingestion.ingest_document(SECOND)
    kell = await fact(kb)
    assert kell.description == "All told: a peak. + it is cold. + it is high."
    assert (model.calls, second.usage.llm_calls, kell.pending, second.warnings) == (1, 1, False, ())
    assert "summarize" in second.timings
    vector = (await kb.entity_vectors.vectors(["kell"]))["kell"]
    (expected,) = await embedding.embed([f"Kell\n{kell.summary}"], "document")
    assert vector == pytest.approx(expected)
    assert await rows(kb) == {}
    assert await is_clean(kb)


async def test_relations_are_summarised_as_well() -> None:
    kb, model = await empty_base(), FakeLLMService(told)
    await flow(kb, model).ingest_document(
        saying("pair", *(f"Kell, Ida: she climbed it in {year}." for year in (1901, 1902, 1903)))
    )
    ((relation,),) = [(await kb.graph.relations(await kb.graph.relation_keys())).values()]
    assert relation.description == "All told: she climbed it in 1901. + she climbed it in 1902. + she climbed it in 1903."
    assert await is_clean(kb)


async def test_the_same_said_again_costs_nothing() -> None:
    kb, model = await empty_base(), FakeLLMService(told)
    ingestion = flow(kb, model)
    for said in (FIRST, SECOND, saying("again", "Kell: it is cold."), saying("bare", "Kell, Mo: near.")):
        await ingestion.ingest_document(said)
    assert model.calls == 1
    await ingestion.delete_document(SECOND.id)
    kell = await fact(kb)
    assert (kell.description, kell.pending) == ("All told: a peak. + it is cold. + it is high.", False)
    assert model.calls == 1
    assert await is_clean(kb)


@pytest.mark.parametrize("with_model", [True, False])
async def test_deleted_text_is_gone_at_once_and_no_model_is_asked(with_model: bool) -> None:
    kb, model = await empty_base(), FakeLLMService(told)
    ingestion = flow(kb, model)
    for said in (FIRST, SECOND, saying("third", "Kell: it is CANARY.")):
        await ingestion.ingest_document(said)
    assert "CANARY" in (await fact(kb)).description
    calls = model.calls
    deleting = ingestion if with_model else flow(kb, None)
    await deleting.delete_document(saying("third", "Kell: it is CANARY.").id)
    kell = await fact(kb)
    assert (kell.summary, kell.pending, model.calls) == ("", True, calls)
    assert set(kell.description.splitlines()) == {"a peak.", "it is high.", "it is cold."}
    assert "CANARY" not in json.dumps([str(row) for row in (await rows(kb)).items()])
    assert await is_clean(kb)
    report = await ingestion.summarize()
    assert (report.made, report.pending, report.warnings) == (1, 0, ())
    assert (await fact(kb)).description == "All told: a peak. + it is cold. + it is high."
    assert await is_clean(kb)


async def test_deleting_is_as_if_it_had_never_come() -> None:
    never, deleted = await empty_base(), await empty_base()
    for kb, documents in ((never, (FIRST, SECOND)), (deleted, (FIRST, saying("third", "Kell: it is far."), SECOND))):
        for said in documents:
            await flow(kb, FakeLLMService(told)).ingest_document(said)
    await flow(deleted, None).delete_document(saying("third", "").id)
    assert (await fact(never)).summary
    assert (await fact(deleted)).pending
    assert await canonical_dump(never) == await canonical_dump(deleted)
    await flow(deleted, None).delete_document(SECOND.id)
    await flow(never, None).delete_document(SECOND.id)
    assert not (await fact(deleted)).pending
    assert await canonical_dump(never) == await canonical_dump(deleted)
    assert await rows(deleted) == {}


async def test_order_makes_no_difference() -> None:
    dumps, summaries = [], []
    third = saying("third", "Kell: it is far.", "Ida: she lived in Marlow.", "Ida: she wrote.")
    for documents in ((FIRST, SECOND, third), (third, SECOND, FIRST)):
        kb = await empty_base()
        for said in documents:
            await flow(kb, FakeLLMService(told)).ingest_document(said)
        dumps.append(await canonical_dump(kb))
        summaries.append([(await fact(kb, key)).summary for key in ("kell", "ida")])
    assert dumps[0] == dumps[1]
    assert summaries[0] == summaries[1]
    assert all(summaries[0])


@pytest.mark.parametrize(
    "error", [UpstreamUnavailable("down"), UpstreamAuth("refused"), BudgetExceeded("enough"), StorageError("full")]
)
async def test_a_failure_is_a_warning_and_made_up_for_by_the_next_touch(error: Exception) -> None:
    kb = await empty_base()
    model = FakeLLMService(told, faults={1: error})
    ingestion = flow(kb, model)
    await ingestion.ingest_document(FIRST)
    report = await ingestion.ingest_document(SECOND)
    assert report.status is DocStatus.PROCESSED
    assert report.warnings == ("summaries_pending: 1", f"a summary could not be made: {error}")
    kell = await fact(kb)
    assert kell.pending
    assert set(kell.description.splitlines()) == {"a peak.", "it is high.", "it is cold."}
    assert await is_clean(kb)
    again = await ingestion.ingest_document(SECOND)
    assert (again.unchanged, again.warnings) == (True, ())
    assert (await fact(kb)).description == "All told: a peak. + it is cold. + it is high."


async def test_a_model_that_is_down_is_not_asked_for_each() -> None:
    kb = await empty_base()
    model = FakeLLMService(told, faults=dict.fromkeys(range(1, 999), UpstreamUnavailable("down")))
    said = [f"Name{n}: {text}" for n in range(200) for text in ("one.", "two.", "three.")]
    report = await flow(kb, model).ingest_document(saying("many", *said))
    assert report.warnings[0] == "summaries_pending: 200"
    assert model.calls <= 64
    done = await flow(kb, FakeLLMService(told)).summarize()
    assert (done.made, done.pending, done.usage.llm_calls) == (200, 0, 200)
    assert await rows(kb) == {}
    assert await is_clean(kb)


async def test_a_bad_reply_is_about_one_fact_alone() -> None:
    kb = await empty_base()
    said = [f"{name}: {text}" for name in ("Kell", "Ida") for text in ("one.", "two.", "three.")]
    model = FakeLLMService(lambda messages: "" if "Subject: Ida" in messages[-1].content else told(messages))
    report = await flow(kb, llm_stack(model)).ingest_document(saying("both", *said))
    assert report.warnings[0] == "summaries_pending: 1"
    assert report.usage.llm_calls == 2
    assert ((await fact(kb)).pending, (await fact(kb, "ida")).pending) == (False, True)


async def test_groups_are_kept_and_go_with_what_they_cover() -> None:
    limits = SummaryLimits(fragments=3, max_tokens=6, context_size=24, recommended=6)
    kb, model = await empty_base(), FakeLLMService(lambda messages: f"Kell {len(told(messages))}.")
    ingestion = flow(kb, model, limits=limits)
    texts = [f"it was seen in the year {year} by them." for year in range(1900, 1912)]
    await ingestion.ingest_document(saying("old", *(f"Kell: {text}" for text in texts)))
    kept, calls = await rows(kb), model.calls
    assert len(kept) == calls - 1 > 2
    await ingestion.ingest_document(saying("new", "Kell: it was seen in the year 1999 by them."))
    assert model.calls - calls <= 3
    now = await rows(kb)
    assert len(kept.keys() - now.keys()) <= len(now.keys() - kept.keys()) + 1 < 4
    await ingestion.delete_document(saying("old", "").id)
    assert [key.split("/")[0] for key in await rows(kb)] == ["wanted"]
    assert await is_clean(kb)


async def test_what_was_paid_for_is_kept_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    kb, model = await empty_base(), FakeLLMService(told)

    async def no_vectors(self: object, texts: object) -> None:
        raise UpstreamUnavailable("no vectors")

    with monkeypatch.context() as patch:
        patch.setattr(summarizing.Summaries, "_vectors", no_vectors)
        await flow(kb, model).ingest_document(FIRST)
        report = await flow(kb, model).ingest_document(SECOND)
    assert report.warnings == ("summaries_pending: 1", "a summary could not be made: no vectors")
    assert [key.split("/")[0] for key in await rows(kb)] == ["made", "wanted"]
    done = await flow(kb, FakeLLMService()).summarize()
    assert (done.made, done.usage.llm_calls, model.calls) == (1, 0, 1)
    assert (await fact(kb)).summary
    assert await rows(kb) == {}


async def test_a_summary_of_what_is_said_no_more_is_thrown_away() -> None:
    """A deletion that comes while the model writes: nothing of the deleted text is kept or shown."""
    kb = await empty_base()
    ingestion: Ingestion

    class Slow(FakeLLMService):
        async def complete(self, *args: Any, **options: Any) -> Any:
            completion = await super().complete(*args, **options)
            await ingestion.delete_document(FIRST.id)
            return completion

    ingestion = flow(kb, Slow(told))
    await ingestion.ingest_document(FIRST)
    report = await ingestion.ingest_document(SECOND)
    assert report.warnings == ()
    kell = await fact(kb)
    assert (kell.description, kell.pending) == ("it is cold.", False)
    assert await rows(kb) == {}
    assert await is_clean(kb)


async def test_many_at_once_end_with_every_summary_in_place() -> None:
    kb, model = await empty_base(), FakeLLMService(told, delay=0.01)
    ingestion = flow(kb, model, settings=Settings(force_llm_summary_on_merge=3, max_parallel_insert=8))
    said = [saying(f"d{n}", f"Kell: saying {n}.", f"Ida: word {n}.") for n in range(8)]
    async with asyncio.TaskGroup() as group:
        for one in said:
            group.create_task(ingestion.ingest_document(one))
    for key, word in (("kell", "saying"), ("ida", "word")):
        assert (await fact(kb, key)).description == "All told: " + " + ".join(f"{word} {n}." for n in range(8))
    assert await rows(kb) == {}
    assert await is_clean(kb)


async def test_two_of_whom_the_same_is_said_have_a_summary_each() -> None:
    kb, model = await empty_base(), FakeLLMService(lambda messages: messages[-1].content.splitlines()[0])
    said = [f"{name}: {text}" for text in ("one.", "two.", "three.") for name in ("Kell", "Ida")]
    await flow(kb, model).ingest_document(saying("both", *said))
    assert [(await fact(kb, key)).summary for key in ("kell", "ida")] == ["Subject: Kell", "Subject: Ida"]


async def test_documents_that_come_together_are_summarised_once() -> None:
    kb, model = await empty_base(), FakeLLMService(told)
    ingestion = flow(kb, model)
    async with ingestion.together():
        for n in range(6):
            await ingestion.ingest_document(saying(f"d{n}", f"Kell: saying {n}."))
        assert (await fact(kb)).pending
    assert model.calls == 1
    assert (await fact(kb)).description == "All told: " + " + ".join(f"saying {n}." for n in range(6))
    assert await is_clean(kb)


async def test_what_a_failure_leaves_of_documents_that_came_together_is_told(caplog: pytest.LogCaptureFixture) -> None:
    kb = await empty_base()
    ingestion = flow(kb, FakeLLMService(told, faults={1: UpstreamAuth("refused")}))
    async with ingestion.together():
        for said in (FIRST, SECOND):
            await ingestion.ingest_document(said)
    assert caplog.messages == ["summaries_pending: 1", "a summary could not be made: refused"]
    assert (await ingestion.summarize()).made == 1


async def test_without_a_model_nothing_is_wanted() -> None:
    kb = await empty_base()
    for said in (FIRST, SECOND):
        report = await flow(kb, None).ingest_document(said)
        assert report.warnings == ()
    assert not (await fact(kb)).pending
    assert await rows(kb) == {}


async def test_a_retriever_summarises_behind_an_endpoint(tmp_path: Path) -> None:
    async with OpenAITestServer() as server:
        model = OpenAILLMService("chat", server.base_url, "key", timeout=10, force_llm_summary_on_merge=2)
        async with EasyKnowledgeRetriever(tmp_path, embedding_service=FakeEmbeddingService(16), llm_service=model) as rag:
            await rag.ainsert([f"In spring {when} the Verdel floods Marlow." for when in ("often", "always", "never")])
            shown = await rag.get_entity_info("Verdel")
            assert shown["summarized"]
            assert shown["description"].startswith("Verdel: In spring ")
            assert not shown["summary_pending"]
            first = (await rag.get_docs())[0]
            await rag.adelete_by_doc_id(first.id)
            shown = await rag.get_entity_info("Verdel")
            assert (shown["summarized"], shown["summary_pending"]) == (False, True)
            spent = (await rag.usage()).total
            report = await rag.summarize()
            assert (await rag.usage()).total.usage.llm_calls == spent.usage.llm_calls + report.usage.llm_calls
            assert (report.pending, report.warnings) == (0, ())
            assert report.made > 0
            assert (await rag.get_entity_info("Verdel"))["summarized"]
            assert (await rag.verify(deep=True)).clean


async def test_without_a_model_there_is_nothing_to_ask(tmp_path: Path) -> None:
    async with EasyKnowledgeRetriever(tmp_path, embedding_service=FakeEmbeddingService(16)) as rag:
        with pytest.raises(ConfigError):
            await rag.summarize()


async def test_calls_do_not_grow_with_the_mentions() -> None:
    """Of 32 descriptions shown, each new document changes one at most: calls grow with documents, not with their square."""
    kb, model = await empty_base(), FakeLLMService(lambda messages: f"Kell {len(told(messages))}.")
    limits = SummaryLimits(fragments=3, max_tokens=8, context_size=32, recommended=6)
    ingestion = flow(kb, model, limits=limits)
    for n in range(80):
        await ingestion.ingest_document(saying(f"d{n}", f"Kell: saying number {n} about it."))
    depth = 4
    assert model.calls <= 80 * depth
    assert len((await fact(kb)).fragments) == 32
    assert len(await rows(kb)) <= 32
