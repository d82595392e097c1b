"""The fault table: everything a model endpoint was seen to do wrong, each with what becomes of it.

The rows are numbered; ``test_no_row_is_missing`` counts them. Rows about what a model writes go the whole way, from a
document to the graph or to an answer; rows about the endpoint end at the service with everything around it.
"""

from __future__ import annotations

import asyncio
import email.utils
import itertools
import json
import re
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever, IngestReport, QueryParam
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.endpoints.faults import OutOfRoom, RequestRefused
from easy_knowledge_retriever.errors import (
    BadResponse,
    ContentRefused,
    ContextTooLong,
    EKRError,
    IngestionError,
    RateLimited,
    UpstreamAuth,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.llm.stack import llm_stack
from easy_knowledge_retriever.operations.extraction_json import is_readable
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.reranker.openai import OpenAIRerankerService
from easy_knowledge_retriever.testing import faults
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService
from easy_knowledge_retriever.testing.memory import MemoryKVStorage
from easy_knowledge_retriever.testing.replies import Chat, ChatMode, ChatReply, assistant, copying
from easy_knowledge_retriever.testing.server import CHAT, RERANK, Fault, OpenAITestServer
from easy_knowledge_retriever.types import Chunk, Document, EntityMention, RelationMention

ASK = (Message("user", "hello there"),)
KEY = "canary-key-0123456789"
ROWS = range(1, 22)
TEXT = "The tower was built in Brenn by Mira Holt for the Tidewater Observatory, and Mira Holt stayed in Brenn."
VALID = """E | Mira Holt | Person | She built the tower.
E | Brenn | Location | A town.
E | Tidewater Observatory | Organization | It looks at the sea.
R | Mira Holt | Brenn | lives in | 8 | She stayed in Brenn.
R | Mira Holt | Tidewater Observatory | works for | 5 | She built its tower.
END"""
OBJECT = json.dumps(
    {
        "entities": [
            {"name": "Mira Holt", "type": "Person", "description": "She built the tower."},
            {"name": "Brenn", "type": "Location", "description": "A town."},
            {"name": "Tidewater Observatory", "type": "Organization", "description": "It looks at the sea."},
        ],
        "relations": [
            {"source": "Mira Holt", "target": "Brenn", "keywords": ["lives in"], "weight": 8, "description": "She stayed."},
            {
                "source": "Mira Holt",
                "target": "Tidewater Observatory",
                "keywords": ["works for"],
                "weight": 5,
                "description": "x",
            },
        ],
    }
)
"""The same as an object, for ``extraction_format="json"``."""
LABELS = {"Mira Holt", "Brenn", "Tidewater Observatory"}


@pytest.fixture
async def service(server: OpenAITestServer) -> AsyncIterator[OpenAILLMService]:
    llm = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    yield llm
    await llm.aclose()


@pytest.fixture
def stack(service: OpenAILLMService, waits: list[float]) -> LLMService:
    """The service with everything around it, as a retriever uses it, and without the waiting."""
    return llm_stack(service)


def retriever(server: OpenAITestServer, folder: Path, **settings: Any) -> EasyKnowledgeRetriever:
    model = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
    return EasyKnowledgeRetriever(
        folder / "rag",
        llm_service=model,
        embedding_service=FakeEmbeddingService(),
        **{"entity_extract_max_gleaning": 0, **settings},
    )


@dataclass(frozen=True)
class Said:
    """What an ingest took from the model."""

    report: IngestReport
    entities: Mapping[str, EntityMention]
    relations: Sequence[RelationMention]

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """Ends of the relations."""
        return {(relation.source, relation.target) for relation in self.relations}


async def said(server: OpenAITestServer, folder: Path, reply: str | ChatMode, **settings: Any) -> Said:
    """What an ingest of TEXT keeps of a model that answers so; what is not in the graph does not count."""
    server.chat = reply if callable(reply) else lambda _: reply
    file = folder / "tower.md"
    file.write_text(TEXT)
    async with retriever(server, folder, **settings) as rag:
        report = await rag.ingest(file)
        kept = [extraction async for _, extraction in rag._kb.extractions.scan() if extraction.source == "llm"]
        labels = set(await rag.get_graph_labels())
        assert (await rag.verify(deep=True)).clean
    entities = {mention.name: mention for extraction in kept for mention in extraction.entities}
    assert set(entities) <= labels
    return Said(report, entities, [relation for extraction in kept for relation in extraction.relations])


async def failure(stack: LLMService) -> EKRError:
    """The error that a request ends with. It says something, and no key."""
    with pytest.raises(EKRError) as caught:
        await stack.complete(ASK)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert caught.value.message.strip()
    return caught.value


# ---------------------------------------------------------------------------------------------- what a model writes


async def test_row_01_a_valid_answer(server: OpenAITestServer, tmp_path: Path) -> None:
    found = await said(server, tmp_path, VALID)
    assert set(found.entities) == LABELS
    assert found.pairs == {("Mira Holt", "Brenn"), ("Mira Holt", "Tidewater Observatory")}
    assert found.entities["Mira Holt"].type == "Person"
    assert (found.report.failed_chunks, found.report.warnings) == ((), ())
    assert server.count(CHAT) == 1


@pytest.mark.parametrize(
    "dressed",
    [
        f"```\n{VALID}\n```",
        f"```text\n{VALID}\n```\nI hope this helps!",
        f"Here is what I found in the passage:\n\n{VALID}\n\nLet me know if you need more.",
        f"\ufeff{VALID}",
        VALID.replace("\n", "\r\n"),
        "\n".join(f"- {line}" for line in VALID.splitlines()),
        "\n".join(f"{number}. {line}" for number, line in enumerate(VALID.splitlines(), 1)),
        VALID.replace(" | ", "|"),
        VALID.replace(" | ", " <|> "),
        VALID.replace("E | ", "entity | ").replace("R | ", "relationship | "),
        OBJECT,
        f"```json\n{OBJECT}\n```",
        f"Here you are:\n{OBJECT}\nIs there anything else?",
        OBJECT.replace("}]", "},]"),
        OBJECT.replace('"', "'"),
        OBJECT.replace('"relations"', '/* now these */ "relations"'),
        f"\ufeff{OBJECT}",
    ],
)
async def test_row_02_the_same_answer_in_another_dress(server: OpenAITestServer, tmp_path: Path, dressed: str) -> None:
    form = "json" if "{" in dressed else "lines"
    found = await said(server, tmp_path, dressed, extraction_format=form)
    assert set(found.entities) == LABELS
    assert found.pairs == {("Mira Holt", "Brenn"), ("Mira Holt", "Tidewater Observatory")}
    assert found.report.failed_chunks == ()


async def test_row_03_an_answer_cut_at_every_byte(server: OpenAITestServer, service: OpenAILLMService) -> None:
    raw = VALID.encode()
    extractor = LLMExtractor(service, max_gleaning=0)
    document = Document("d", "tower", TEXT, "v")
    whole = [line for line in VALID.splitlines() if line != "END"]
    for cut in range(len(raw) + 1):
        beginning = raw[:cut].decode("utf-8", "ignore")
        server.chat = lambda _, text=beginning: ChatReply(text, "length")  # type: ignore[misc]
        chunk = Chunk("c", "d", "tower", "v", 0, TEXT, 0, len(TEXT))
        outcome = await extractor.extract(document, [chunk], lambda *_: None)
        complete = beginning.count("\n")
        found = outcome.extractions[0] if outcome.extractions else None
        names = {mention.name for mention in found.entities} if found else set()
        expected = {line.split(" | ")[1] for line in whole[:complete] if line.startswith("E")}
        assert names == expected, beginning
        assert len(found.relations if found else ()) == sum(line.startswith("R") for line in whole[:complete])


async def test_row_04_records_that_are_none(server: OpenAITestServer, tmp_path: Path) -> None:
    reply = """E | Mira Holt
E | Brenn | Location
E | Tidewater Observatory | Organization | It looks at the sea. | and | more | fields
R | Mira Holt
R | Mira Holt | Brenn | lives in
E ; Sea Wall ; Structure ; Another delimiter."""
    found = await said(server, tmp_path, reply)
    assert set(found.entities) == LABELS | {"Sea Wall"}
    assert found.pairs == {("Mira Holt", "Brenn")}
    assert [warning for warning in found.report.warnings if warning.startswith("2 records")]


async def test_row_14_values_that_nobody_can_use(server: OpenAITestServer, tmp_path: Path) -> None:
    many = "\n".join(f"E | Name {number} | Concept | One of many." for number in range(5000))
    reply = f"""E | Mira\u202e Holt\x00 | Person | <b>She</b> built\x07 the tower.
E | {"x" * 10_000} | Concept | A name that is too long.
E | Brenn | Location | A town.
E | Brenn | Location | A town, said again at more length.
R | Mira Holt | Brenn | lives in | NaN | A weight that is none.
R | Brenn | Mira Holt | home of | 1e999 | A weight without bound.
R | Brenn | Sea | near | -7 | A weight below all.
R | Mira Holt | Sea | "sees" | "3" | A number in quotes.
{many}"""
    found = await said(server, tmp_path, reply)
    assert "Mira Holt" in found.entities
    assert found.entities["Brenn"].description == "A town, said again at more length."
    assert max(map(len, found.entities)) <= 256
    assert len(found.entities) + len(found.relations) <= 100 + 1  # one end that no record lists
    assert all(0.1 <= relation.weight <= 10 for relation in found.relations)
    text = " ".join(mention.name + mention.description for mention in found.entities.values())
    assert not [bad for bad in ("\x00", "\x07", "\u202e", "<b>") if bad in text]
    assert [warning for warning in found.report.warnings if "records" in warning]


async def test_row_15_relations_that_lead_nowhere(server: OpenAITestServer, tmp_path: Path) -> None:
    reply = """E | Mira Holt | Person | She built the tower.
E | MIRA  HOLT | Person | Again.
R | Mira Holt | mira holt | is | 5 | A loop.
R | mira holt | Sea Wall | saw | 5 | An end that no record lists.
E | \\| | Concept | A name that is a delimiter.
E | END | Concept | A name that is the end mark."""
    found = await said(server, tmp_path, reply)
    assert found.pairs == {("Mira Holt", "Sea Wall")}
    assert found.entities["Sea Wall"].type == "UNKNOWN"
    assert {"Mira Holt", "Sea Wall", "END"} == set(found.entities)


@pytest.mark.parametrize(
    ("answer", "removed", "cited"),
    [
        ("Mira Holt stayed in Brenn [99].", 1, 0),
        ("Mira Holt stayed in Brenn.", 0, 0),
        ("Mira Holt stayed in Brenn, page 700 [1].", 0, 1),
    ],
)
async def test_row_16_citations_of_what_was_not_given(
    server: OpenAITestServer, tmp_path: Path, answer: str, removed: int, cited: int
) -> None:
    server.chat = lambda chat: answer if "<context-" in chat.prompt else assistant(chat)
    file = tmp_path / "tower.md"
    file.write_text(TEXT)
    async with retriever(server, tmp_path) as rag:
        await rag.ingest(file)
        result = await rag.aquery("Where did Mira Holt stay?", QueryParam(mode="naive"))
    assert "[99]" not in result.content
    assert len(result.references) == cited
    assert all(reference.pages in {(), (1,)} for reference in result.references)
    warnings = repr(result.metadata.get("warnings"))
    assert ("removed" in warnings) == bool(removed)


@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_row_17_a_model_that_always_finds_more(server: OpenAITestServer, tmp_path: Path, rounds: int) -> None:
    numbers = itertools.count()
    await said(server, tmp_path, lambda _: f"E | Name {next(numbers)} | Concept | One more.", entity_extract_max_gleaning=rounds)
    assert server.count(CHAT) == 1 + rounds


async def test_row_19_the_first_valid_answer_is_kept_and_no_other(server: OpenAITestServer, service: OpenAILLMService) -> None:
    store = MemoryKVStorage().bind("llm_cache")
    await store.open()
    cached = llm_stack(service, cache=store, accept=is_readable)
    server.chat = OpenAITestServer(
        ["I am not sure what you want.", ChatReply(VALID[:40], "length"), VALID, "E | Other | X | y"]
    ).chat
    texts = [(await cached.complete(ASK)).text for _ in range(5)]
    assert texts == ["I am not sure what you want.", VALID[:40], VALID, VALID, VALID]
    assert server.count(CHAT) == 3
    await store.close()


# -------------------------------------------------------------------------------------------- what an endpoint does


@pytest.mark.parametrize(
    ("fault", "error", "requests"),
    [
        # row 5: one more try with more room, then a diagnostic
        pytest.param(faults.no_room, OutOfRoom, 2, id="05-no_room"),
        pytest.param(faults.thought_only, OutOfRoom, 2, id="05-thought_only"),
        # row 6: at most one more try
        pytest.param(faults.declined, ContentRefused, 2, id="06-declined"),
        pytest.param(faults.content_filtered, ContentRefused, 2, id="06-content_filtered"),
        # row 7: at most two more
        pytest.param(faults.empty_text, BadResponse, 3, id="07-empty_text"),
        pytest.param(faults.null_content, BadResponse, 3, id="07-null_content"),
        pytest.param(faults.no_choices, BadResponse, 3, id="07-no_choices"),
        pytest.param(faults.empty_choices, BadResponse, 3, id="07-empty_choices"),
        # row 10
        pytest.param(faults.rate_limited, RateLimited, 5, id="10-rate_limited"),
        pytest.param(lambda: faults.rate_limited(86_400), RateLimited, 1, id="10-a_day"),
        pytest.param(faults.out_of_credit, RequestRefused, 1, id="10-out_of_credit"),
        # row 11
        pytest.param(faults.internal_error, UpstreamUnavailable, 5, id="11-500"),
        pytest.param(faults.bad_gateway, UpstreamUnavailable, 5, id="11-502"),
        pytest.param(faults.unavailable, UpstreamUnavailable, 5, id="11-503"),
        pytest.param(faults.gateway_timeout, UpstreamUnavailable, 5, id="11-504"),
        pytest.param(faults.overloaded, UpstreamUnavailable, 5, id="11-529"),
        pytest.param(lambda: faults.unavailable(86_400), UpstreamUnavailable, 1, id="11-503_a_day"),
        # row 12: no more try
        pytest.param(faults.context_too_long, ContextTooLong, 1, id="12-context_too_long"),
        pytest.param(faults.unauthorized, UpstreamAuth, 1, id="12-401"),
        pytest.param(faults.forbidden, UpstreamAuth, 1, id="12-403"),
        pytest.param(faults.no_such_model, RequestRefused, 1, id="12-404"),
        pytest.param(faults.too_large, RequestRefused, 1, id="12-413"),
        pytest.param(faults.unprocessable, RequestRefused, 1, id="12-422"),
        pytest.param(faults.redirected, RequestRefused, 1, id="12-307"),
        # row 13
        pytest.param(faults.reset, UpstreamUnavailable, 5, id="13-reset"),
        pytest.param(faults.reset_in_mid_body, UpstreamUnavailable, 5, id="13-reset_in_mid_body"),
        pytest.param(faults.half_closed, UpstreamUnavailable, 5, id="13-half_closed"),
        pytest.param(faults.html_page, BadResponse, 3, id="13-html_page"),
        pytest.param(faults.error_with_200, BadResponse, 3, id="13-error_with_200"),
    ],
)
async def test_rows_of_the_endpoint(
    server: OpenAITestServer,
    stack: LLMService,
    caplog: pytest.LogCaptureFixture,
    fault: Callable[[], Fault],
    error: type[EKRError],
    requests: int,
) -> None:
    caplog.set_level("DEBUG")
    server.fail(CHAT, lambda number, body: fault())
    caught = await failure(stack)
    assert isinstance(caught, error)
    assert server.count(CHAT) == requests, "one retry layer, and it keeps to its policy"
    assert KEY not in caplog.text
    server.fail(CHAT, {})
    assert (await stack.complete(ASK)).text == "hello there", "and the service works afterwards"


async def test_row_05_reaches_the_user_as_a_diagnostic(server: OpenAITestServer, tmp_path: Path) -> None:
    server.fail(CHAT, lambda number, body: faults.thought_only())
    found = await said(server, tmp_path, VALID)
    assert len(found.report.failed_chunks) == 1
    assert [warning for warning in found.report.warnings if "max_tokens" in warning]


async def test_row_06_a_refused_chunk_is_marked(server: OpenAITestServer, tmp_path: Path, waits: list[float]) -> None:
    server.fail(CHAT, lambda number, body: faults.declined())
    found = await said(server, tmp_path, VALID)
    assert len(found.report.refused_chunks) == 1
    assert [warning for warning in found.report.warnings if "refuse" in warning]
    assert server.count(CHAT) <= 2


async def test_row_06_a_refusal_in_words(server: OpenAITestServer, tmp_path: Path) -> None:
    found = await said(server, tmp_path, "I'm sorry, but I can't help with that.")
    assert found.entities == {}
    assert found.report.warnings, "never silence"


async def test_row_08_an_answer_of_ten_megabytes_is_cut(server: OpenAITestServer, tmp_path: Path) -> None:
    server.fail(CHAT, lambda number, body: faults.huge())
    found = await said(server, tmp_path, VALID)
    assert set(found.entities) == {"Name"}
    assert server.count(CHAT) == 1


@pytest.mark.parametrize("streaming", [False, True])
async def test_row_08_an_answer_without_end_meets_the_deadline(server: OpenAITestServer, streaming: bool) -> None:
    service = OpenAILLMService("tiny", server.base_url, KEY, timeout=0.4)
    kind = {"content-type": "text/event-stream"} if streaming else {}
    server.fail(CHAT, lambda number, body: faults.dripping(0.05, kind))
    with pytest.raises(UpstreamTimeout):
        _ = [piece async for piece in service.stream(ASK)] if streaming else await service.complete(ASK)
    await service.aclose()


async def test_row_08_events_without_end_meet_the_deadline(server: OpenAITestServer) -> None:
    """Each event comes in time, the last one never does."""

    class Endless:
        def __iter__(self) -> Any:
            return itertools.repeat(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n')

    service = OpenAILLMService("tiny", server.base_url, KEY, timeout=1)
    events = Fault(headers={"content-type": "text/event-stream"}, pieces=Endless(), pause=0.05)
    server.fail(CHAT, {1: events})
    shown = []
    with pytest.raises(UpstreamTimeout):
        async for piece in service.stream(ASK):
            shown.append(piece)  # noqa: PERF401 - what came before the error counts
    assert set(shown) == {"x"}
    await service.aclose()


SECRET = "the secret plan"


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply(f"<think>{SECRET}</think>{VALID}"),
        ChatReply(f"<THINK>\n{SECRET}\n</THINK>\n{VALID}"),
        ChatReply(f"{SECRET}</think>{VALID}"),
        ChatReply(VALID, message={"reasoning_content": SECRET}),
        ChatReply(VALID, message={"reasoning": SECRET}),
        ChatReply(f"{VALID}\n<think>{SECRET}"),
    ],
)
async def test_row_09_reasoning_is_read_by_nobody(
    server: OpenAITestServer, service: OpenAILLMService, tmp_path: Path, reply: ChatReply
) -> None:
    found = await said(server, tmp_path, lambda _: reply)
    assert set(found.entities) == LABELS
    assert (await service.complete(ASK)).text == VALID
    if not (reply.text or "").startswith(SECRET):  # a stream cannot take back what it has shown
        assert SECRET not in "".join([piece async for piece in service.stream(ASK)])


@pytest.mark.parametrize(
    ("fault", "least", "most"),
    [
        (lambda: faults.rate_limited(3), 3, 3),
        (lambda: faults.rate_limited(email.utils.formatdate(time.time() + 60, usegmt=True)), 30, 60),
        (lambda: faults.rate_limited(milliseconds=250), 0.25, 0.25),
        (lambda: faults.rate_limited(86_400), 86_400, 86_400),
        (lambda: faults.unavailable(7), 7, 7),
    ],
)
async def test_row_10_what_an_endpoint_says_of_waiting_is_read(
    server: OpenAITestServer, service: OpenAILLMService, fault: Callable[[], Fault], least: float, most: float
) -> None:
    server.fail(CHAT, {1: fault()})
    error = await failure(service)
    assert isinstance(error, RateLimited | UpstreamUnavailable)
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


async def test_row_10_all_callers_of_an_endpoint_pause_together(server: OpenAITestServer) -> None:
    """Two services, queries and ingest: nothing is sent until the time is over, and nobody else is refused."""
    services = [OpenAILLMService(name, server.base_url, KEY, timeout=5) for name in ("one", "two")]
    stacks = [llm_stack(service) for service in services]
    came: list[float] = []

    def first_is_refused(number: int, body: Any) -> Fault | None:
        came.append(time.monotonic())
        return faults.rate_limited(milliseconds=400) if number == 1 else None

    server.fail(CHAT, first_is_refused)
    async with task_group() as group:
        group.create_task(stacks[0].complete(ASK))
        while not services[0].limiter.paused and len(came) < 2:  # noqa: ASYNC110 - the limiter has nothing to wait for
            await asyncio.sleep(0.01)
        for number in range(6):
            priority: Any = ("query", "ingest")[number % 2]
            group.create_task(stacks[number % 2].complete(ASK, priority=priority))
    assert len(came) == 1 + 7
    assert min(came[1:]) - came[0] >= 0.39
    for service in services:
        await service.aclose()


async def test_row_11_waits_grow_and_end(server: OpenAITestServer, stack: LLMService, waits: list[float]) -> None:
    server.fail(CHAT, lambda number, body: faults.unavailable())
    await failure(stack)
    between = [wait for wait in waits if wait > 0.1]
    assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(between, (0.5, 1, 2, 4), strict=True))


async def test_row_12_a_context_that_is_too_long_splits_the_chunk_once(server: OpenAITestServer, tmp_path: Path) -> None:
    texts: list[str] = []

    def short_context(number: int, body: Any) -> Fault | None:
        found = re.search(r"<text-(\w+)>\n(.*?)\n</text-\1>", body["messages"][-1]["content"], re.DOTALL)
        texts.append(found[2] if found else "")
        return faults.context_too_long() if len(texts[-1]) > 0.7 * len(long) else None

    long = " ".join(f"The tower number {number} was built in Brenn by Mira Holt." for number in range(12))
    server.fail(CHAT, short_context)
    server.chat = lambda _: VALID
    file = tmp_path / "long.md"
    file.write_text(long)
    async with retriever(server, tmp_path) as rag:
        report = await rag.ingest(file)
    assert report.failed_chunks == ()
    assert len(texts) == 3
    assert "".join(texts[1:]).replace(" ", "") == long.replace(" ", "")
    server.fail(CHAT, lambda number, body: faults.context_too_long())
    async with retriever(server, tmp_path / "again") as rag:
        again = await rag.ingest(file)
    assert len(again.failed_chunks) == 1, "halves are not halved"
    assert server.count(CHAT) <= 3 + 3


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def test_row_13_a_connection_that_is_refused(waits: list[float]) -> None:
    service = OpenAILLMService("tiny", f"http://127.0.0.1:{closed_port()}/v1", KEY, timeout=5)
    assert isinstance(await failure(llm_stack(service)), UpstreamUnavailable)
    await service.aclose()


async def test_row_13_a_name_that_nobody_knows(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: object, **keywords: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    service = OpenAILLMService("tiny", "http://no-such-host.invalid/v1", KEY, timeout=5)
    assert isinstance(await failure(llm_stack(service)), UpstreamUnavailable)
    await service.aclose()


async def test_row_13_a_server_that_knows_no_tls(waits: list[float]) -> None:
    async def puzzled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(puzzled, "127.0.0.1", 0)
    service = OpenAILLMService("tiny", f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/v1", KEY, timeout=5)
    assert isinstance(await failure(llm_stack(service)), UpstreamUnavailable)
    await service.aclose()
    plain.close()
    await plain.wait_closed()


async def test_row_13_a_server_that_says_nothing(server: OpenAITestServer) -> None:
    service = OpenAILLMService("tiny", server.base_url, KEY, timeout=0.3)
    server.fail(CHAT, {1: faults.late()})
    assert isinstance(await failure(service), UpstreamTimeout)
    await service.aclose()


async def test_row_13_an_outage_fails_the_document_and_keeps_its_type(
    server: OpenAITestServer, tmp_path: Path, waits: list[float]
) -> None:
    server.fail(CHAT, lambda number, body: faults.unauthorized())
    with pytest.raises(IngestionError) as caught:
        await said(server, tmp_path, VALID)
    assert isinstance(caught.value.__cause__, UpstreamAuth)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize("how", ["refuses", "ignores"])
async def test_row_18_json_mode_is_found_out_once_for_the_process(server: OpenAITestServer, how: str) -> None:
    def in_words(chat: Chat) -> str:
        return '{"city": "Brenn"}' if "JSON schema" in chat.prompt else "The city is Brenn."

    server.chat = in_words
    if how == "refuses":
        server.fail(CHAT, faults.refusing("response_format"))
    for _ in range(2):
        service = OpenAILLMService("tiny", server.base_url, KEY, timeout=5)
        assert json.loads((await service.complete(ASK, json_schema=SCHEMA)).text) == {"city": "Brenn"}
        await service.aclose()
    kinds = [request.body.get("response_format", {}).get("type") for request in server.requests]
    first = ["json_schema", "json_object"] if how == "refuses" else ["json_schema"]
    assert kinds == [*first, None, None]


def event(text: str) -> bytes:
    return f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()


@pytest.mark.parametrize(
    "parts",
    [
        [part for letter in event("été") for part in [bytes([letter])]],
        [event("é") + event("té")],
        [event("été").replace(b"data: ", b"data:")],
        [b": keep-alive\n\n", event("été"), b": keep-alive\n\n"],
        [b"event: message\nid: 1\nretry: 5\n" + event("été")],
        [event("été").replace(b"\n", b"\r\n")],
        [b'data: {"choices":[]}\n\n', event("été"), b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n'],
        [event("été"), b"data: [DONE]\n\n", event("more")],
        [b'data: {\ndata: "choices":[{"delta":{"content":"\xc3\xa9t\xc3\xa9"}}]}\n\n'],
    ],
    ids=["bytes", "two_in_one", "no_space", "comments", "fields", "crlf", "no_choices", "after_done", "two_lines"],
)
async def test_row_20_events_in_every_form(server: OpenAITestServer, service: OpenAILLMService, parts: list[bytes]) -> None:
    server.fail(CHAT, {1: faults.streamed(parts)})
    assert "".join([piece async for piece in service.stream(ASK)]) == "été"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (b'data: {"error":{"message":"overloaded"}}\n\n', UpstreamUnavailable),
        (b'data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n', RateLimited),
        (b"data: rubbish\n\n", BadResponse),
        (b'data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}\n\n', ContentRefused),
    ],
)
async def test_row_20_an_error_comes_after_the_partial_text(
    server: OpenAITestServer, service: OpenAILLMService, end: bytes, error: type[UpstreamError]
) -> None:
    server.fail(CHAT, lambda number, body: faults.streamed([event("half"), end]))
    stream = llm_stack(service).stream(ASK)
    assert await anext(stream) == "half"
    with pytest.raises(error) as caught:
        await anext(stream)
    assert caught.value.message
    assert server.count(CHAT) == 1, "what was shown is not asked for again"


@pytest.mark.parametrize(
    ("reply", "failed"),
    [
        ({"results": [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 0.9}]}, False),
        ({"results": [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]}, False),
        ({"results": [{"index": 1, "relevance_score": 0.9}]}, False),
        ([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}], False),
        ({"output": {"results": [{"index": 1, "relevance_score": 0.9}]}}, False),
        ({"results": [{"index": 7, "relevance_score": 0.9}]}, True),
        ({"results": [{"index": 1, "relevance_score": 0.9}, {"index": 1, "relevance_score": 0.8}]}, True),
        ({"results": []}, True),
        ({"output": {"results": []}}, True),
        ({"error": {"message": "no such model"}}, True),
        ("<html>", True),
    ],
)
async def test_row_21_what_a_reranker_says(
    server: OpenAITestServer, tmp_path: Path, waits: list[float], reply: object, failed: bool
) -> None:
    server.chat = copying
    server.fail(RERANK, lambda number, body: Fault(body=json.dumps(reply)))
    async with EasyKnowledgeRetriever(
        tmp_path / "rag",
        embedding_service=FakeEmbeddingService(),
        reranker_service=OpenAIRerankerService("tiny", server.rerank_url, KEY, timeout=5),
        chunk_top_k=2,
    ) as rag:
        for name, text in {"first": "The tower of Brenn is tall.", "second": "The tower of Ostra is small."}.items():
            await rag.ainsert(text, file_paths=name)
        unranked = await rag.aquery("tower of Brenn tall", QueryParam(mode="naive", enable_rerank=False))
        result = await rag.aquery("tower of Brenn tall", QueryParam(mode="naive"))
    before, after = ([chunk["file_path"] for chunk in answer.chunks] for answer in (unranked, result))
    assert before == ["first", "second"]
    assert ("rerank_failed" in result.degraded) == failed
    assert after == (before if failed else ["second", "first"])


def test_no_row_is_missing() -> None:
    numbers = {
        int(number)
        for number in re.findall(r"test_row_(\d\d)|id=\"(\d\d)-", Path(__file__).read_text())
        for number in number
        if number
    }
    assert numbers == set(ROWS)
