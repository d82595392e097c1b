"""Answers of models that copy and that lie, checked from the question to the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.models import JudgeChoice
from easy_knowledge_retriever.operations.judging import LLMJudge, Pair, Verdict
from easy_knowledge_retriever.query import QueryResult
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService
from easy_knowledge_retriever.testing.replies import Chat, assistant, copying
from easy_knowledge_retriever.types import Reference
from evaluation.citations import Gold, Tally, Teller, flagged, tally_copies

PAGES = (
    "The mill of Ostrania was built in 1906 by Ola Berg. It grinds wheat and rye for 12 villages.",
    "The bridge over the Verdel is 240 metres long. Ida Brandt opened it on 3 May 1931 before a large crowd.",
    "The school of Marlow is closed in August. Every pupil receives a book from the library in autumn.",
)
QUESTIONS = ("Who built the mill of Ostrania?", "How long is the bridge over the Verdel?", "When is the school of Marlow closed?")
Reply = Callable[[Chat], str]


class Scripted:
    """A model whose answers a function writes."""

    def __init__(self) -> None:
        self.answer: Reply = copying
        self.service = FakeLLMService(self._reply)

    def _reply(self, messages: Sequence[Message]) -> str:
        chat = Chat("model", tuple({"role": m.role, "content": m.content} for m in messages), {})
        return self.answer(chat) if "<context-" in chat.prompt else assistant(chat)


async def opened(folder: Path, model: Scripted, judge: JudgeChoice = None) -> EasyKnowledgeRetriever:
    rag = EasyKnowledgeRetriever(
        working_dir=folder,
        embedding_service=FakeEmbeddingService(),
        llm_service=model.service,
        citation_judge=judge,
        entity_extract_max_gleaning=0,
        enable_llm_cache=False,
        cosine_better_than_threshold=-1.0,
    )
    await rag.initialize_storages()
    for number, text in enumerate(PAGES, start=1):
        pages = [{"page": 10 * number, "start": 0, "end": text.index(". ") + 1}]
        pages.append({"page": 10 * number + 1, "start": text.index(". ") + 2, "end": len(text)})
        await rag.ainsert({"content": text, "pages": pages}, file_paths=f"page-{number}.pdf")
    return rag


async def test_copies_are_verified_and_lies_are_flagged(tmp_path: Path) -> None:
    model, tally, found = Scripted(), Tally(), Counter[str]()
    rag = await opened(tmp_path, model)
    for question in QUESTIONS:
        model.answer = copying
        tally_copies(tally, Gold((), (), ()), await rag.aquery(question))
        teller = Teller()
        model.answer = teller.all
        await rag.aquery(question)
        for lie in teller.told:
            model.answer = lambda chat, lie=lie: lie.text  # type: ignore[misc]
            assert flagged(lie, await rag.aquery(question)), lie
            found[lie.kind] += 1
    await rag.finalize_storages()
    assert (tally.verified, tally.supported, tally.wrong_pages) == (tally.citations, tally.claims, 0)
    assert tally.citations >= len(QUESTIONS)
    assert found.keys() == {"page", "id", "other", "number", "negation", "addition", "invented", "uncited"}


async def test_pages_are_those_of_the_sentences(tmp_path: Path) -> None:
    model = Scripted()
    model.answer = lambda chat: "Ida Brandt opened it on 3 May 1931 before a large crowd [1, p. 4711]."
    rag = await opened(tmp_path, model)
    result = await rag.aquery(QUESTIONS[1], QueryParam(mode="naive"))
    await rag.finalize_storages()
    assert result.content == "Ida Brandt opened it on 3 May 1931 before a large crowd [1, p. 21]."
    quote = "Ida Brandt opened it on 3 May 1931 before a large crowd."
    assert result.references == (Reference("1", "page-2.pdf", (21,), (1,), quote),)


PARAPHRASE = "The crossing has a span of 240 metres [1]."


def verdict(result: QueryResult) -> list[tuple[bool, str, str]]:
    return [(claim.supported, claim.judged_by, claim.reason) for claim in result.claims]


@pytest.mark.parametrize("own", [False, True])
async def test_a_model_judges_what_words_leave_open(tmp_path: Path, own: bool) -> None:
    model = Scripted()
    model.answer = lambda chat: PARAPHRASE
    judge = FakeLLMService(lambda messages: "1: YES")
    said = model.service if not own else judge
    rag = await opened(tmp_path, model, LLMJudge(judge) if own else "llm")
    if not own:
        model.service._replies = lambda messages: "1: YES" if "<pair-" in messages[-1].content else model._reply(messages)
    result = await rag.aquery(QUESTIONS[1], QueryParam(mode="naive"))
    await rag.finalize_storages()
    assert verdict(result) == [(True, "judge", "")]
    assert sum("<pair-" in messages[-1].content for messages in said.requests) == 1
    assert judge.closed is own


class Inference:
    """A judge of the user's: a model for natural language inference, say."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.pairs: list[Pair] = []

    async def judge(self, pairs: Sequence[Pair]) -> Sequence[Verdict | bool]:
        self.pairs += pairs
        if self.broken:
            raise RuntimeError("out of memory")
        return [False for _ in pairs]


@pytest.mark.parametrize("broken", [False, True])
async def test_a_judge_of_the_users_own(tmp_path: Path, broken: bool) -> None:
    model, judge = Scripted(), Inference(broken=broken)
    model.answer = lambda chat: PARAPHRASE
    rag = await opened(tmp_path, model, judge)
    result = await rag.aquery(QUESTIONS[1], QueryParam(mode="naive"))
    await rag.finalize_storages()
    assert [pair.passage.startswith("The bridge") or "The bridge" in pair.passage for pair in judge.pairs] == [True]
    assert result.degraded == (("judge_failed",) if broken else ())
    assert [claim.supported for claim in result.claims] == [False]
    assert PARAPHRASE.split(" [", maxsplit=1)[0] in result.content
