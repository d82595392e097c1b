"""Everything that a language model does for a question, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from easy_knowledge_retriever.llm.base import LLMService
from easy_knowledge_retriever.operations.answering_llm import LLMAnswerer
from easy_knowledge_retriever.operations.base import Answerer, KeywordExtractor, PromptHook, Rewriter, Splitter
from easy_knowledge_retriever.operations.citation_check import WORDS_ONLY, Checking
from easy_knowledge_retriever.operations.decomposition_llm import LLMSplitter
from easy_knowledge_retriever.operations.judging import LLMJudge
from easy_knowledge_retriever.operations.keywords_llm import LLMKeywords
from easy_knowledge_retriever.operations.rewriting_llm import LLMRewriter
from easy_knowledge_retriever.prompts.prompt_set import PromptSet

__all__ = ["Asking", "asking_with"]

_PROMPTS = PromptSet()


@dataclass(frozen=True, slots=True)
class Asking:
    """What understands a question and answers it."""

    rewriter: Rewriter
    splitter: Splitter
    keywords: KeywordExtractor
    answerer: Answerer


def asking_with(
    model: Callable[[str], LLMService],
    prompts: PromptSet = _PROMPTS,
    on_prompt: PromptHook | None = None,
    checking: Checking = WORDS_ONLY,
) -> Asking:
    """All of it by a language model.

    Args:
        model: Gives the model, with its wrappers around it, for a purpose: ``rewrite``, ``split``, ``keywords``,
            ``answer`` or ``judge``.
        prompts: The prompts.
        on_prompt: Sees each prompt for an answer before it is sent.
        checking: What else checks the claims of an answer.
    """
    if checking.judge == "llm":
        checking = Checking(checking.embedding, LLMJudge(model("judge"), prompts))
    return Asking(
        LLMRewriter(model("rewrite"), prompts),
        LLMSplitter(model("split"), prompts),
        LLMKeywords(model("keywords"), prompts),
        LLMAnswerer(model("answer"), prompts, on_prompt=on_prompt, checking=checking),
    )
