"""Which models a retriever uses: the user's, with everything around them, or the local ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from easy_knowledge_retriever.events import Observer
from easy_knowledge_retriever.llm.base import EmbeddingService, LLMService
from easy_knowledge_retriever.llm.callables import CallableLLM, as_embedding_service, as_llm_service
from easy_knowledge_retriever.llm.local.embedding import LocalEmbeddingService
from easy_knowledge_retriever.llm.stack import Identified, embedding_stack, llm_stack
from easy_knowledge_retriever.llm.wrappers import ReplyStore
from easy_knowledge_retriever.operations.answering import ExtractiveAnswerer
from easy_knowledge_retriever.operations.asking import Asking, asking_with
from easy_knowledge_retriever.operations.base import PaidExtractor, PromptHook
from easy_knowledge_retriever.operations.budget import CountTokens
from easy_knowledge_retriever.operations.citation_check import Checking
from easy_knowledge_retriever.operations.decomposition import LocalSplitter
from easy_knowledge_retriever.operations.extraction_json import is_readable
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.extraction_task import ExtractionTask
from easy_knowledge_retriever.operations.judging import CitationJudge, LLMJudge
from easy_knowledge_retriever.operations.keywords import LocalKeywords
from easy_knowledge_retriever.operations.rewriting import LocalRewriter
from easy_knowledge_retriever.operations.summarization import Summarizer, SummaryLimits
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.reranker.base import RerankerService
from easy_knowledge_retriever.reranker.callables import as_reranker_service
from easy_knowledge_retriever.reranker.stack import reranker_stack
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.spending.meter import Till

__all__ = ["EmbeddingChoice", "JudgeChoice", "LLMChoice", "ModelChoices", "Models", "RerankerChoice", "choose_models"]

EmbeddingChoice = EmbeddingService | Callable[..., Any] | None
"""A service, an async function from texts to vectors, or None for the local model."""
LLMChoice = LLMService | Callable[..., Any] | None
"""A service, a function of a prompt, or None for answers without a model."""
JudgeChoice = CitationJudge | Literal["llm"] | None
"""A judge, ``"llm"`` for the retriever's own language model, or None: words and embeddings decide."""
RerankerChoice = RerankerService | Callable[..., Any] | None
"""A service, a function of a question and texts, or None for no rerank."""


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """Which models a user wants, and what they are told."""

    embedding: EmbeddingChoice = None
    llm: LLMChoice = None
    reranker: RerankerChoice = None
    prompts: PromptSet = field(default_factory=PromptSet)
    on_prompt: PromptHook | None = None
    """Sees each prompt for an answer before it is sent."""
    judge: JudgeChoice = None


@dataclass(frozen=True, slots=True)
class Models:
    """What a retriever asks: chosen once."""

    embedding: EmbeddingService
    llm: LLMService | None
    reranker: RerankerService | None
    asking: Asking
    with_model: Callable[[object], Asking]
    """What asks another language model, given as a service or a function."""
    with_reranker: Callable[[RerankerService], RerankerService]
    """Puts the wrappers around another reranker."""
    llm_extractor: PaidExtractor | None
    judge: JudgeChoice = None
    summarizer: Summarizer | None = None

    async def aclose(self) -> None:
        """Frees their connections, all of them even if one fails."""
        async with AsyncExitStack() as stack:
            judging = self.judge.model if isinstance(self.judge, LLMJudge) else None
            for service in (self.embedding, self.llm, self.reranker, judging):
                if service is not None:
                    stack.push_async_callback(service.aclose)


def choose_models(
    settings: Settings, choices: ModelChoices, cache: ReplyStore, observer: Observer, till: Till, count: CountTokens
) -> Models:
    """The models of some choices, each with the wrappers of its stack.

    Args:
        settings: Those of the retriever.
        choices: What the user gave.
        cache: Keeps replies, where the settings want it.
        observer: Is told of each call.
        till: Where each request is paid.
        count: Counts tokens.

    Raises:
        ConfigError: A choice cannot be used.
    """
    llm, reranker, prompts = choices.llm, choices.reranker, choices.prompts
    embedding = LocalEmbeddingService() if choices.embedding is None else as_embedding_service(choices.embedding)
    local = isinstance(embedding, LocalEmbeddingService)
    vectors = embedding_stack(embedding, observer=observer, till=till, local=local)
    with_reranker = functools.partial(reranker_stack, observer=observer, till=till)
    ranks = None if reranker is None else with_reranker(as_reranker_service(reranker))

    judge = choices.judge
    if isinstance(judge, LLMJudge):
        replies = cache if settings.enable_llm_cache else None
        judge = LLMJudge(llm_stack(judge.model, observer=observer, till=till, purpose="judge", cache=replies), judge.prompts)
    checking = Checking(vectors, judge)

    def with_model(model: object) -> Asking:
        service = as_llm_service(model)
        # Nothing tells two functions apart, such as two lambdas of one line: what one said must not answer for the other.
        unnamed = isinstance(service, CallableLLM) and model is not llm
        replies = cache if settings.enable_llm_cache and not unnamed else None
        return asking_with(
            lambda purpose: llm_stack(service, observer=observer, till=till, purpose=purpose, cache=replies),
            prompts,
            choices.on_prompt,
            checking,
        )

    if llm is None:
        asking = Asking(LocalRewriter(), LocalSplitter(), LocalKeywords(), ExtractiveAnswerer(vectors))
        return Models(vectors, None, ranks, asking, with_model, with_reranker, None)
    service = as_llm_service(llm)
    kept = cache if settings.enable_llm_cache_for_entity_extract else None
    extracting = llm_stack(service, observer=observer, till=till, purpose="extract", cache=kept, accept=is_readable)
    task = ExtractionTask(
        entity_types=settings.entity_types,
        relation_types=settings.relation_types,
        language=settings.language,
        form=settings.extraction_format,
        examples=settings.extraction_examples,
    )
    extractor = LLMExtractor(
        extracting,
        task,
        max_gleaning=settings.entity_extract_max_gleaning,
        gleaning=settings.entity_extract_gleaning,
        prompts=prompts,
    )
    summarizer = Summarizer(
        llm_stack(service, observer=observer, till=till, purpose="summarize"),
        service.identity if isinstance(service, Identified) else service.model,
        SummaryLimits.of(settings, service),
        count,
        language=settings.language,
        prompts=prompts,
    )
    return Models(vectors, service, ranks, with_model(llm), with_model, with_reranker, extractor, judge, summarizer)
