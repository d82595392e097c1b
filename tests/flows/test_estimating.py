"""What an ingest would cost, beside what it did cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever, IngestionStopped, IngestReport, Price
from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.kg.usage_ledger import add_ingest_usage
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.spending.account import Amount, Line
from easy_knowledge_retriever.spending.estimate import DocumentEstimate, Estimate, Range
from easy_knowledge_retriever.testing.server import OpenAITestServer
from easy_knowledge_retriever.types import Usage

PRICES = {"chat": Price(input=1000, output=4000), "embed": Price(input=100)}
PLACES = ("Ostrania", "Verdel", "Lund", "Kell", "Brenn", "Skarn", "Tarnow", "Velm")


class Spaces:
    """Counts as the test server does: what stands between spaces."""

    def encode(self, content: str) -> list[int]:
        return [ord(word[0]) for word in content.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(map(chr, tokens))


def retriever(server: OpenAITestServer, folder: Path, **keywords: Any) -> EasyKnowledgeRetriever:
    given: dict[str, Any] = {
        "llm_service": OpenAILLMService("chat", server.base_url, "key", max_async=4, timeout=10),
        "embedding_service": OpenAIEmbeddingService("embed", server.base_url, "key", 256, timeout=10),
        "tokenizer": Spaces(),
        "chunk_token_size": 24,
        "chunk_overlap_token_size": 0,
        "prices": PRICES,
    }
    return EasyKnowledgeRetriever(folder / "base", **given | keywords)


def places(folder: Path, names: Sequence[str] = PLACES, name: str = "places.md") -> Path:
    path = folder / name
    path.write_text(
        "\n\n".join(
            f"# {place}\n\nMira Holt of {place} met Ida Brandt in {place} City. They climbed {place} Hill." for place in names
        )
    )
    return path


def assert_within(estimate: Estimate, report: IngestReport) -> None:
    usage = report.usage
    assert usage.llm_calls in estimate.llm_calls
    assert usage.prompt_tokens in estimate.prompt_tokens
    assert usage.completion_tokens in estimate.completion_tokens
    assert usage.embedding_calls in estimate.embedding_calls
    assert usage.embedding_tokens in estimate.embedding_tokens
    assert estimate.cost is not None
    assert report.cost is not None
    assert report.cost in estimate.cost


async def test_the_true_figures_lie_within_the_bar(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        path = places(tmp_path)
        estimate = await rag.estimate(path)
        report = await rag.ingest(path)
        assert (estimate.chunks, estimate.to_read, estimate.seen_calls) == (report.chunks, report.chunks, 0)
        assert report.chunks == 8
        assert_within(estimate, report)
        assert estimate.llm_calls.low == 8
        assert estimate.llm_calls.expected == pytest.approx(8 + 8 * 1 + 8 * 0.05)
        assert estimate.llm_calls.high == 8 + 8 * 1 + 8 * 2 + 3
        assert estimate.seconds.low > 0


async def test_what_was_seen_makes_the_bar_narrower(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        more = places(tmp_path, ("Arden", "Belmor", "Corin"), "more.md")
        before = await rag.estimate(more)
        await rag.ingest(places(tmp_path))
        after = await rag.estimate(more)
        assert after.seen_calls == 16
        assert width(after.completion_tokens) < width(before.completion_tokens)
        assert_within(after, await rag.ingest(more))


async def test_the_ledger_tells_how_long_a_call_takes_and_how_many_summaries_follow(
    server: OpenAITestServer, tmp_path: Path
) -> None:
    """Two seconds a call about a chunk, one a summary, one summary for two calls; four calls at once."""
    seen = {
        Line("extract", "chat", "llm"): Amount(Usage(llm_calls=20), seconds=40),
        Line("summarize", "chat", "llm"): Amount(Usage(llm_calls=10), seconds=10),
    }
    async with retriever(server, tmp_path) as rag:
        async with rag._kb.transaction() as inside:
            await add_ingest_usage(inside, seen)
        estimate = await rag.estimate(places(tmp_path))
    summaries = Range(8 * 0.25, 16 * 0.5, 16 * 1.0 + 3)
    assert estimate.llm_calls == Range(8, 16, 16) + summaries
    assert estimate.seconds == Range(8 * 1, 16 * 2, 16 * 4) * 0.25 + summaries * Range(0.5, 1, 2) * 0.25


def width(bar: Range) -> float:
    return bar.high / max(bar.expected, 1e-9)


async def test_nothing_is_sent_and_nothing_is_written(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        before = {path: path.read_bytes() for path in (tmp_path / "base").rglob("*") if path.is_file()}
        await rag.estimate([places(tmp_path)], texts=["Mira Holt founded the Alder Museum."])
        assert await rag.get_docs() == []
        assert {path: path.read_bytes() for path in (tmp_path / "base").rglob("*") if path.is_file()} == before
    assert server.requests == []


async def test_what_is_there_already_costs_nothing(server: OpenAITestServer, tmp_path: Path) -> None:
    path = places(tmp_path)
    async with retriever(server, tmp_path, max_llm_calls=5, enable_llm_cache_for_entity_extract=False) as rag:
        with pytest.raises(IngestionStopped):
            await rag.ingest(path)
    async with retriever(server, tmp_path, enable_llm_cache_for_entity_extract=False) as rag:
        rest = await rag.estimate(path)
        assert rest.llm_calls.low < 8 + 1
        assert rest.llm_calls.high >= 11
        report = await rag.ingest(path)
        assert report.usage.llm_calls in rest.llm_calls
        assert report.usage.prompt_tokens in rest.prompt_tokens
        again = await rag.estimate(path)
        assert again.documents[0].unchanged
        assert (again.llm_calls.high, again.embedding_tokens.high, again.cost) == (0, 0, Range(0, 0, 0))
        twin = await rag.estimate(path, names=["copy.md"])
        assert (twin.llm_calls.high, twin.to_read) == (2 * 8 + 3, 0)  # summaries may be called for


async def test_a_text_is_known_by_its_name(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ainsert("Mira Holt came back.", file_paths=["note.txt"])
        estimate = await rag.estimate(texts="Mira Holt came back.", names=["note.txt"])
        assert [document.unchanged for document in estimate.documents] == [True]
        other = await rag.estimate(texts=["Mira Holt came back.", "Ida Brandt left."], names=["note.txt", "other.txt"])
        assert [document.unchanged for document in other.documents] == [True, False]


async def test_cached_replies_cost_nothing(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        await rag.ingest(places(tmp_path))
        changed = places(tmp_path, (*PLACES[:-1], "Zorn"))
        estimate = await rag.estimate(changed)
        assert (estimate.chunks, estimate.to_read) == (8, 1)
        again = await rag.ingest(changed)
        assert again.usage.llm_calls in estimate.llm_calls
        assert again.usage.cached_calls == 2 * 7


async def test_what_cannot_be_read_is_said(server: OpenAITestServer, tmp_path: Path) -> None:
    async with retriever(server, tmp_path) as rag:
        (tmp_path / "empty.md").write_text("")
        estimate = await rag.estimate([tmp_path / "nowhere.md", tmp_path / "empty.md", tmp_path / "a.xyz", places(tmp_path)])
        assert [document.chunks for document in estimate.documents] == [0, 0, 0, 8]
        assert len(estimate.warnings) == 3
        with pytest.raises(ConfigError, match="1 names for 2 files and 0 texts"):
            await rag.estimate([tmp_path / "a.md", tmp_path / "b.md"], names=["a"])


async def test_without_a_price_the_cost_is_not_known(server: OpenAITestServer, tmp_path: Path) -> None:
    for missing in ("chat", "embed"):
        prices = {model: price for model, price in PRICES.items() if model != missing}
        async with retriever(server, tmp_path, prices=prices) as rag:
            estimate = await rag.estimate(places(tmp_path))
            assert (estimate.cost, estimate.llm_calls.low) == (None, 8)


async def test_local_models_cost_nothing(tmp_path: Path) -> None:
    async with EasyKnowledgeRetriever(tmp_path / "base") as rag:
        estimate = await rag.estimate(places(tmp_path))
    assert (estimate.cost, estimate.llm_calls, estimate.embedding_tokens) == (Range(0, 0, 0), Range(0, 0, 0), Range(0, 0, 0))
    assert estimate.chunks > 0


@pytest.mark.parametrize("gleaning", [{"entity_extract_max_gleaning": 0}, {"entity_extract_max_gleaning": 3}])
async def test_rounds_are_in_the_bar(server: OpenAITestServer, tmp_path: Path, gleaning: Mapping[str, int]) -> None:
    async with retriever(server, tmp_path, **gleaning) as rag:
        estimate = await rag.estimate(places(tmp_path))
        report = await rag.ingest(places(tmp_path))
        assert_within(estimate, report)
        assert estimate.llm_calls.low == 8
        assert estimate.llm_calls.high == 8 * (1 + gleaning["entity_extract_max_gleaning"]) + 2 * 8 + 3


def test_ranges_add_and_multiply_point_by_point() -> None:
    assert Range(1, 2, 3) + Range.exactly(1) == Range(2, 3, 4)
    assert Range(1, 2, 3) * 2 == Range(2, 4, 6)
    assert Range(1, 2, 3) * Range(0, 1, 10) == Range(0, 2, 30)
    assert Range.around(10, 0.5, 2) == Range(5, 10, 20)
    assert Range(0, 5, 6).at_least(Range(1, 4, 9)) == Range(1, 5, 9)
    assert 3 in Range(1, 2, 3)
    assert 3.1 not in Range(1, 2, 3)


def test_documents_side_by_side_take_less_time() -> None:
    parts = [DocumentEstimate(str(number), seconds=Range(1, 2, 3)) for number in range(4)]
    assert Estimate.of(parts, 0, 1).seconds == Range(4, 8, 12)
    assert Estimate.of(parts, 0, 2).seconds == Range(2, 4, 6)
    assert Estimate.of(parts, 0, 99).seconds == Range(1, 2, 3)
    assert Estimate.of([], 0, 1) == Estimate()
