"""Judges of claims that words do not decide: the port, and a language model as one."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from easy_knowledge_retriever.errors import BadResponse
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.text.hashing import digest

__all__ = ["JUDGE_FAILED", "CitationJudge", "LLMJudge", "Pair", "Verdict", "read_verdicts"]

JUDGE_FAILED = "judge_failed"
"""Named in ``degraded`` when the judge failed and words and embeddings decided."""

_PROMPTS = PromptSet()
_MOST_PAIRS = 40
_LONGEST_PASSAGE = 6_000
_LONGEST_REPLY = 40_000
_LINE = re.compile(
    r"^[^\w\n]*(?:claim|n°|no\.?|#)?\s*(\d{1,4})\b[^\w\n]*(?:verdict\W+)?"
    r"(yes|no|true|false|supported|unsupported|not supported|refuted|oui|non|ja|nein|sí|si)\b[^\w\n]*([^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_POSITIVE = frozenset({"yes", "true", "supported", "oui", "ja", "sí", "si"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim with the text it is said to rest on."""

    claim: str
    passage: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a passage carries a claim."""

    supported: bool
    reason: str = ""
    """In a few words, where the judge gives any."""


@runtime_checkable
class CitationJudge(Protocol):
    """Decides whether passages carry claims. Bring a model of your own, such as one for natural language inference."""

    async def judge(self, pairs: Sequence[Pair]) -> Sequence[Verdict | bool | None]:
        """A verdict a pair, in order; None where there is none.

        Called once an answer, with the claims that words did not settle. Whatever an EKRError, OSError, ValueError,
        TypeError, LookupError, RuntimeError or ArithmeticError says, the answer is not lost: the result names
        ``judge_failed``.

        Args:
            pairs: The claims and what they cite.
        """
        ...


class LLMJudge:
    """A language model as a judge, asked once for all claims of an answer.

    Args:
        model: The language model. A retriever puts its wrappers around it: replies are kept, retried and counted like all.
        prompts: The prompts.
    """

    def __init__(self, model: LLMService, prompts: PromptSet = _PROMPTS) -> None:
        self.model = model
        self.prompts = prompts

    async def judge(self, pairs: Sequence[Pair]) -> tuple[Verdict | None, ...]:
        """A verdict a pair; none for pairs beyond the first forty and for those the reply leaves out.

        Raises:
            UpstreamError: The model failed, or its reply holds no verdict.
        """
        asked = pairs[:_MOST_PAIRS]
        if not asked:
            return (None,) * len(pairs)
        completion = await self.model.complete(self.messages(asked))
        read = read_verdicts(completion.text, len(asked))
        if not any(read):
            raise BadResponse("the judge gave no verdict", hint="another model, or no citation_judge")
        return (*read, *(None for _ in pairs[_MOST_PAIRS:]))

    def messages(self, pairs: Sequence[Pair]) -> tuple[Message, ...]:
        """What is sent: each pair fenced by tags whose name nobody can know beforehand."""
        tag = digest("\n".join(f"{pair.claim}\n{pair.passage}" for pair in pairs))[:8]
        rendered = [
            self.prompts.judging_pair.render(
                tag=tag,
                number=str(number),
                passage=html.escape(pair.passage[:_LONGEST_PASSAGE], quote=False),
                claim=html.escape(pair.claim, quote=False),
            )
            for number, pair in enumerate(pairs, start=1)
        ]
        asked = self.prompts.judging_pairs.render(pairs="\n".join(rendered), count=str(len(pairs)))
        return (Message("system", self.prompts.judging_system.render()), Message("user", asked))


def read_verdicts(text: str, count: int) -> tuple[Verdict | None, ...]:
    """The verdicts of a model's reply, None where it gives none for a pair. The first for a pair counts. Never raises.

    Args:
        text: The reply.
        count: How many pairs were asked about.
    """
    found: dict[int, Verdict] = {}
    for number, word, reason in _LINE.findall(text[:_LONGEST_REPLY]):
        supported = word.lower() in _POSITIVE
        found.setdefault(int(number), Verdict(supported, "" if supported else " ".join(reason.split())[:200]))
    return tuple(found.get(number) for number in range(1, count + 1))
