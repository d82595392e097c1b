"""Everything that reads what a model or an endpoint wrote, given what nobody would write.

Some dozens of examples each in the default run; ``pytest --long tests/fuzz`` goes on for ten minutes, and then also holds
each reader to a second for 100 kB.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from easy_knowledge_retriever.endpoints.faults import from_status, retry_after
from easy_knowledge_retriever.endpoints.retry import RetryPolicy
from easy_knowledge_retriever.errors import EKRError
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.llm.chat_reply import LONGEST_ANSWER, read_reply, salvaged
from easy_knowledge_retriever.llm.reasoning import ReasoningFilter, without_reasoning
from easy_knowledge_retriever.llm.service import OpenAIEmbeddingService, OpenAILLMService
from easy_knowledge_retriever.llm.stack import embedding_stack, llm_stack
from easy_knowledge_retriever.llm.vectors import read_vectors
from easy_knowledge_retriever.operations.citation_check import check_words
from easy_knowledge_retriever.operations.extraction_format import parse_extraction
from easy_knowledge_retriever.operations.extraction_json import is_readable, parse_json_extraction, parse_reply
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService, _read_scores
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.settings import ExtractionFormat
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, RERANK, Fault, OpenAITestServer
from easy_knowledge_retriever.types import Chunk, Passage

FORMS: tuple[ExtractionFormat, ...] = ("lines", "json")
FAST = RetryPolicy(tries=1)
MINUTES = 10
SECONDS_FOR_100_KB = 1.0
_QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_LONG = settings(max_examples=250, deadline=None, database=None, suppress_health_check=list(HealthCheck))

_BITS = [
    *(
        "E | ",
        "R | ",
        "E",
        "R",
        " | ",
        "|",
        "<|>",
        ";",
        "##",
        "END",
        "\n",
        "\r\n",
        "\t",
        "- ",
        "1. ",
        "```",
        "```json\n",
        "\ufeff",
    ),
    *("{", "}", "[", "]", '"', "'", ",", ":", "\\", "\\u12", "\\ud83d", "//", "/*", "null", "NaN", "1e999", "-1", "0.5"),
    *('"entities"', '"relations"', '"name"', '"type"', '"description"', '"source"', '"target"', '"keywords"', '"weight"'),
    *("[1]", "[99]", "[1, 2]", "[1-3]", "[1-999999999]", "(p. 3)", "page 4711", "<think>", "</think>", "<th", "<b>", "&amp;"),
    *("Mira Holt", "Brenn", "a", "is", ". ", "! ", "\x00", "\u202e", "\ud800", "İ", "é", "\U0001f600", " " * 50, "x" * 300),
]
WRITTEN = st.one_of(st.lists(st.sampled_from(_BITS), max_size=60).map("".join), st.text(max_size=200))
_KEYS = st.sampled_from(
    [
        *("choices", "message", "content", "finish_reason", "refusal", "reasoning", "reasoning_content", "usage", "delta"),
        *("prompt_tokens", "completion_tokens", "data", "index", "embedding", "results", "output", "relevance_score", "score"),
        *("error", "document", "code", "x"),
    ]
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.floats(),
    st.sampled_from(["stop", "length", "content_filter", "AAAA", "AACAPwAAAEA=", "", "1"]),
    WRITTEN,
)
JSON = st.recursive(
    _LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)), max_leaves=20
)
_MESSAGE = st.dictionaries(st.sampled_from(["content", "refusal", "reasoning", "role"]), _LEAVES, max_size=4)
_CHOICE = st.fixed_dictionaries({"message": st.one_of(_MESSAGE, JSON), "finish_reason": _LEAVES})
REPLY = st.one_of(
    st.dictionaries(_KEYS, JSON, max_size=5),
    st.fixed_dictionaries({"choices": st.one_of(st.lists(_CHOICE, max_size=2), JSON), "usage": JSON}),
)
_ROW = st.one_of(st.dictionaries(st.sampled_from(["index", "embedding", "relevance_score", "score"]), JSON, max_size=4), JSON)
ROWS = st.one_of(REPLY, st.fixed_dictionaries({"data": st.lists(_ROW, max_size=3)}))
SCORES = st.one_of(JSON, ROWS, st.fixed_dictionaries({"results": st.lists(_ROW, max_size=3)}), st.lists(_ROW, max_size=3))


def _passages() -> list[Passage]:
    texts = ["Mira Holt stayed in Brenn. She built a tower.", "The tower is 0.5 km high, as page 3 says."]
    return [
        Passage(number, Chunk(f"c{number}", "d", "d", "v", number, text, 0, len(text)), 1.0)
        for number, text in enumerate(texts, 1)
    ]


def extraction(text: str) -> None:
    """Total: records and diagnostics, never an exception, and every limit kept."""
    for read, cut in itertools.product((parse_extraction, parse_json_extraction, parse_reply), (False, True)):
        parsed = read(text, cut=cut)
        names = [mention.name for mention in parsed.entities]
        assert all(name and len(name) <= 256 and "\x00" not in name for name in names)
        assert all(relation.source in names and relation.target in names for relation in parsed.relations)
        assert all(0.1 <= relation.weight <= 10 for relation in parsed.relations)
        json.dumps(names, ensure_ascii=False).encode()
    is_readable(text)


def reply(value: Mapping[str, Any]) -> None:
    """An answer with text in it, or a typed error."""
    try:
        completion = read_reply(value)
    except EKRError as error:
        assert error.message
    else:
        assert 0 < len(completion.text) <= LONGEST_ANSWER + 1
        assert "<think>" not in completion.text.lower()
        completion.text.encode()
        assert min(completion.usage.prompt_tokens, completion.usage.completion_tokens) >= 0


def beginning(text: str) -> None:
    """The text so far, or a ValueError."""
    for whole in (text, f'{{"choices": [{{"message": {{"content": "{text}'):
        try:
            found = salvaged(whole)
        except ValueError:
            continue
        assert isinstance(found["choices"][0]["message"]["content"], str)


def vectors(value: Mapping[str, Any]) -> None:
    """Vectors of length 1, or a typed error."""
    try:
        found = read_vectors(value, 1, 2)
    except EKRError as error:
        assert error.message
    else:
        assert found.shape == (1, 2)
        assert abs(float((found**2).sum()) - 1) < 1e-5


def scores(value: object) -> None:
    """A finite score a text, or a typed error."""
    try:
        found = _read_scores(value, 2)
    except EKRError as error:
        assert error.message
    else:
        assert len(found) == 2
        assert all(map(math.isfinite, found))


def citations(text: str) -> None:
    """What is cited was given."""
    checked = check_words(text, _passages())
    assert {citation.passage for citation in checked.citations} <= {1, 2}


def reasoning(text: str) -> None:
    """No block is left, and a stream shows the same whatever its pieces."""
    assert "<think>" not in without_reasoning(text).lower()
    whole, pieces = ReasoningFilter(), ReasoningFilter()
    expected = whole.feed(text) + whole.rest()
    assert "".join(pieces.feed(letter) for letter in text) + pieces.rest() == expected


def headers(text: str) -> None:
    """Seconds of at least 0, or nothing."""
    for name in ("retry-after", "retry-after-ms"):
        seconds = retry_after({name: text})
        assert seconds is None or 0 <= seconds < float("inf")
        for status in (400, 429, 503):
            assert from_status(status, text, {name: text}, "somewhere").message


READERS: Mapping[str, tuple[st.SearchStrategy[Any], Callable[[Any], None]]] = {
    "extraction": (WRITTEN, extraction),
    "reply": (REPLY, reply),
    "beginning": (WRITTEN, beginning),
    "vectors": (ROWS, vectors),
    "scores": (SCORES, scores),
    "citations": (WRITTEN, citations),
    "reasoning": (WRITTEN, reasoning),
    "headers": (st.one_of(WRITTEN, st.integers().map(str), st.floats().map(str)), headers),
}


def run(name: str, how: settings, number: int) -> None:
    """One round of a reader."""
    strategy, reader = READERS[name]

    @seed(number)
    @how
    @given(strategy)
    def one(value: Any) -> None:
        reader(value)

    one()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_is_total(name: str) -> None:
    run(name, _QUICK, 0)


@pytest.mark.long
def test_readers_are_total_for_ten_minutes(request: pytest.FixtureRequest) -> None:
    ends = time.monotonic() + 60 * request.config.getoption("--minutes")
    number = 0
    while time.monotonic() < ends:
        number += 1
        for name in READERS:
            run(name, _LONG, number)
    print(f"{number} rounds of {_LONG.max_examples} examples for each of {len(READERS)} readers")


@pytest.mark.long
@pytest.mark.parametrize("bit", [bit for bit in _BITS if bit.strip()])
def test_a_reader_takes_no_longer_than_a_second_for_100_kb(bit: str) -> None:
    text = bit * (100_000 // len(bit))
    began = time.process_time()
    for reader in (extraction, beginning, citations, reasoning, headers):  # each reads it some times over
        reader(text)
        assert time.process_time() - began < SECONDS_FOR_100_KB * 5, reader.__name__
        began = time.process_time()


RAW = st.one_of(
    st.binary(max_size=200),
    WRITTEN.map(lambda text: text.encode("utf-8", "replace")),
    REPLY.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n"),
    st.lists(REPLY.map(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n"), max_size=4).map(b"".join),
)
STATUS = st.sampled_from([200, 200, 200, 201, 204, 299, 304, 400, 418, 429, 500, 503])


async def test_services_raise_typed_errors_only(server: OpenAITestServer) -> None:
    """Any bytes with any status, at every route, whole and streamed."""
    cases: list[tuple[bytes, int]] = []

    @seed(0)
    @settings(max_examples=50, deadline=None, database=None)
    @given(RAW, STATUS)
    def collect(raw: bytes, status: int) -> None:
        cases.append((raw, status))

    collect()
    llm = OpenAILLMService("tiny", server.base_url, timeout=5)
    embedding = OpenAIEmbeddingService("tiny", server.base_url, None, 2, timeout=5)
    reranker = OpenAIRerankerService("tiny", server.rerank_url, timeout=5)
    ask = (Message("user", "hi"),)

    async def streamed() -> None:
        async with aclosing(llm_stack(llm, policy=FAST).stream(ask)) as pieces:  # type: ignore[type-var]  # it is a generator
            async for _ in pieces:
                pass

    calls: list[Callable[[], Any]] = [
        lambda: llm_stack(llm, policy=FAST).complete(ask),
        lambda: llm_stack(llm, policy=FAST).complete(ask, json_schema={"type": "object"}),
        streamed,
        lambda: embedding_stack(embedding, policy=FAST).embed(["a"], "query"),
        lambda: reranker_stack(reranker, policy=FAST).scores("q", ["a", "b"]),
    ]
    for raw, status in cases:
        kind = "text/event-stream" if raw.startswith(b"data:") else "application/json"
        body = b"" if status in {204, 304} else raw
        answer = Fault(status, {"content-type": kind}, body)
        for path in (CHAT, EMBEDDINGS, RERANK):
            server.fail(path, dict.fromkeys(range(1, 9), answer))
        for call in calls:
            try:
                await call()
            except EKRError as error:
                assert error.message
    for service in (llm, embedding, reranker):
        await service.aclose()
