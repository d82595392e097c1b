"""The themes and details of a question, found by a language model."""

from __future__ import annotations

import re

from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.base import KeywordExtractor, Keywords
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["LLMKeywords", "parse_keywords"]

_PROMPTS = PromptSet()
_LINE = re.compile(r"^\W*(themes?|details?)\W*?:(.*)$", re.IGNORECASE | re.MULTILINE)
_SEPARATOR = re.compile(r"\s*[;,、；]\s*")
_QUOTES = "\"'`*“”«»[]() \t."
_MOST = 12
_LONGEST = 200


class LLMKeywords(KeywordExtractor):
    """Asks a language model what to look for. An answer that is none gives the words of the question themselves.

    Args:
        model: The language model, with its wrappers around it.
        prompts: The prompts.
    """

    def __init__(self, model: LLMService, prompts: PromptSet = _PROMPTS) -> None:
        self._model = model
        self._prompts = prompts

    async def keywords(self, question: str) -> Keywords:
        """Its themes and its details.

        Raises:
            UpstreamError: The model failed.
        """
        asked = self._prompts.keywords_question.render(tag=digest(question)[:8], question=question)
        messages = (Message("system", self._prompts.keywords_system.render()), Message("user", asked))
        completion = await self._model.complete(messages)
        high, low = parse_keywords(completion.text)
        if not high and not low:
            low = _words(question)
        return Keywords(high, low)


def parse_keywords(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Themes and details of a model's answer; both empty if it holds none. Never raises."""
    found: dict[str, list[str]] = {"t": [], "d": []}
    for kind, rest in _LINE.findall(text[:20_000]):
        words = (word.strip(_QUOTES) for word in _SEPARATOR.split(rest))
        found[kind[0].lower()] += [word for word in words if word and len(word) <= _LONGEST]
    high, low = (tuple(dict.fromkeys(words))[:_MOST] for words in found.values())
    return high, low


def _words(question: str) -> tuple[str, ...]:
    function_words = FUNCTION_WORDS.get(guess_language(question), frozenset())
    words = (word for word in re.findall(r"\w+(?:[-'’.]\w+)*", question) if word.lower() not in function_words)
    return tuple(dict.fromkeys(words))[:_MOST]
