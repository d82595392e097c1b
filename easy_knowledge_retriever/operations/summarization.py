"""One description out of many: what is asked of the model, in which parts, and which of its replies are kept.

The fragments of an entity or a relation are a *set*. It is cut into groups that the model can read at once, each group is
summarised (map), and the summaries are summarised again (reduce). Where the cuts lie depends on the digest of each fragment
and on nothing else, so a fragment that comes or goes changes its own group and those above it; every other group is still
the same set, and what was paid for it still stands.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from easy_knowledge_retriever.aio import map_bounded
from easy_knowledge_retriever.errors import BadResponse
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.operations.budget import CountTokens, longest_prefix
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.text.cleaning import clean
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Entity, FactKey, Relation, Summary, Usage

__all__ = ["Group", "Limited", "Summarizer", "SummaryLimits", "SummaryStore", "fact_name", "readable_summary"]

_DEFAULT = Settings()
_PROMPTS = PromptSet()
_CONCURRENCY = 64
"""Groups worked on at once. The limiter of the endpoint decides how many requests are sent."""
_WORDS_A_TOKEN: Final = 0.75
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:i['’]m|i am) (?:sorry|afraid|unable|not able)|sorry[,.!]"
    r"|i (?:can ?not|can['’]t|could not|do not|don['’]t|apologi[sz]e)"
    r"|as an? (?:ai|language model)|unfortunately|there (?:is|are) no (?:statements?|information|text)"
    r"|(?:no|please provide)\b.{0,24}\bstatements?\b|(?:je suis )?d[ée]sol[ée]|je ne (?:peux|suis|dispose)|en tant qu)",
    re.IGNORECASE,
)
_WRAPPING: Final = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)
_LABEL: Final = re.compile(r"\A(?:\*\*)?(?:summary|description|résumé)(?:\*\*)?\s*:(?:\*\*)?\s*", re.IGNORECASE)
_FENCE: Final = re.compile(r"</?statements-\w*>")


@runtime_checkable
class Limited(Protocol):
    """A model that says how its summaries are to be."""

    @property
    def summary_max_tokens(self) -> int:
        """Tokens that a description, joined or summarised, may have."""
        ...

    @property
    def summary_context_size(self) -> int:
        """Tokens of fragments in one request."""
        ...

    @property
    def summary_length_recommended(self) -> int:
        """Tokens a summary is asked to have."""
        ...

    @property
    def force_llm_summary_on_merge(self) -> int:
        """Fragments that call for a summary."""
        ...


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """When a description is summarised, and how long that may be."""

    fragments: int = 8
    """So many call for a summary, however short they are."""
    max_tokens: int = 1200
    """A description that is joined is summarised if it is longer; a summary that is longer is cut."""
    context_size: int = 12000
    """Tokens of fragments in one request."""
    recommended: int = 600
    """Tokens a summary is asked to have."""

    @classmethod
    def of(cls, settings: Settings, model: object = None) -> SummaryLimits:
        """The limits of a retriever and of its model.

        Args:
            settings: Theirs counts for the number of fragments, unless it is the default and the model says otherwise.
            model: Says the rest, if it is :class:`Limited`.
        """
        ours = cls(fragments=settings.force_llm_summary_on_merge)
        if not isinstance(model, Limited):
            return ours
        default = ours.fragments == _DEFAULT.force_llm_summary_on_merge
        fragments = model.force_llm_summary_on_merge if default else ours.fragments
        context_size = max(2, model.summary_context_size)
        most = max(1, min(model.summary_max_tokens, context_size // 2))  # two summaries must fit into one request
        return cls(max(1, fragments), most, context_size, max(1, min(model.summary_length_recommended, most)))

    def call_for_summary(self, fact: Entity | Relation, count: CountTokens) -> bool:
        """Whether what is said of a fact is to be summarised."""
        if not fact.fragments:
            return False
        if len(fact.fragments) >= self.fragments:
            return True
        joined = "\n".join(fragment.text for fragment in fact.fragments)
        # no token is shorter than a byte: short texts, which most are, need not be counted
        return len(joined.encode(errors="replace")) > self.max_tokens and count(joined) > self.max_tokens


@dataclass(frozen=True, slots=True)
class Group:
    """A set of fragments that is summarised: at once, or from the summaries of its parts."""

    texts: tuple[str, ...]
    """In the order of their digests."""
    covers: tuple[str, ...]
    """The digests, in order."""
    parts: tuple[Group, ...] = ()

    def all(self) -> Iterator[Group]:
        """This group and every one below it."""
        yield self
        for part in self.parts:
            yield from part.all()


class SummaryStore(Protocol):
    """Where summaries come from and go to."""

    def made(self, key: str) -> str:
        """The summary of this key; empty if there is none."""
        ...

    async def keep(self, key: str, summary: Summary) -> None:
        """Makes a summary durable."""
        ...

    def spent(self, usage: Usage) -> None:
        """Counts what a call cost, whatever came of it."""
        ...


class Summarizer:
    """Asks a language model for summaries.

    Args:
        model: The language model, with its wrappers around it, but no cache of replies: a summary is kept by what it covers.
        identity: What its replies depend on besides the messages.
        limits: When and how long.
        count: Counts tokens.
        language: Of the summaries; ``auto`` is that of the fragments. Names keep theirs.
        prompts: The prompts.
        concurrency: Groups of one fact worked on at once.
    """

    def __init__(
        self,
        model: LLMService,
        identity: str,
        limits: SummaryLimits,
        count: CountTokens,
        *,
        language: str = "English",
        prompts: PromptSet = _PROMPTS,
        concurrency: int = _CONCURRENCY,
    ) -> None:
        self.model = model
        self._identity = f"{identity}\n{language}"
        self._count = count
        self._prompts = prompts
        self._concurrency = concurrency
        self.limits = limits
        written_in = "the language of the statements" if language == "auto" else language
        length = str(max(1, round(limits.recommended * _WORDS_A_TOKEN)))
        self._system = prompts.summary_system.render(language=written_in, length=length)

    def wants(self, fact: Entity | Relation) -> bool:
        """Whether what is said of a fact is to be summarised."""
        return self.limits.call_for_summary(fact, self._count)

    def group(self, texts: Sequence[str]) -> Group:
        """The set of these texts, cut into parts where it is too long to be read at once."""
        sizes = {digest(text): (text, self._count(text) + 1) for text in texts}
        return _Cutter(sizes, self.limits).group(tuple(sorted(sizes)), 0)

    def key(self, fact: FactKey, group: Group) -> str:
        """What a summary is kept by: its subject, the language, the model and the exact set of fragments. Holds no text."""
        subject = fact if isinstance(fact, str) else fact.id
        return digest("\n".join((digest(subject), self._identity, *group.covers)))

    async def summary(self, fact: Entity | Relation, group: Group, store: SummaryStore) -> str:
        """The summary of a group. Each reply is kept before it is used.

        Args:
            fact: What it is of.
            group: All that is said of the fact.
            store: Has what was made before, and keeps what is made now.

        Raises:
            UpstreamError: The model failed, or wrote nothing that can be kept.
            BudgetExceeded: The next call would pass a ceiling.
        """
        key = self.key(fact.key, group)
        if made := store.made(key):
            return made
        texts: Sequence[str] = group.texts
        if group.parts:
            texts = await map_bounded(lambda part: self._part(fact, part, store), group.parts, self._concurrency)
        text = await self._ask(fact_name(fact), texts, store)
        await store.keep(key, Summary(fact.key, group.covers, text))
        return text

    async def _part(self, fact: Entity | Relation, part: Group, store: SummaryStore) -> str:
        """The summary of a part; what is short already is passed on as it is."""
        if len(part.texts) == 1 and self._count(part.texts[0]) <= self.limits.max_tokens:
            return part.texts[0]
        return await self.summary(fact, part, store)

    async def _ask(self, name: str, texts: Sequence[str], store: SummaryStore) -> str:
        lines = [_head(" ".join(text.split()), self.limits.context_size, self._count) for text in texts]
        statements = "\n".join(f"- {html.escape(line, quote=False)}" for line in lines)
        asked = self._prompts.summary_statements.render(
            name=html.escape(name, quote=False), tag=digest(statements)[:8], statements=statements
        )
        completion = await self.model.complete([Message("system", self._system), Message("user", asked)], priority="ingest")
        store.spent(completion.usage)
        cut = completion.finish_reason == "length"
        text = readable_summary(completion.text, name, self.limits.max_tokens, self._count, cut=cut)
        if not text:
            raise BadResponse(f"the model wrote no summary of {len(texts)} descriptions")
        return text


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts a set of texts by the bits of their digests, as a trie does."""

    sizes: Mapping[str, tuple[str, int]]
    limits: SummaryLimits

    def group(self, digests: tuple[str, ...], depth: int) -> Group:
        """The group of these texts; parts of parts only where the summaries of its parts would be too long as well."""
        leaves = self._leaves(digests, depth)
        if len(leaves) == 1:
            return leaves[0]
        if len(leaves) > self.limits.context_size // self.limits.max_tokens:
            leaves = [self.group(half, depth + 1) for half in _halves(digests, depth) if half]
        return leaves[0] if len(leaves) == 1 else Group(self._texts(digests), digests, tuple(leaves))

    def _leaves(self, digests: tuple[str, ...], depth: int) -> list[Group]:
        if len(digests) == 1 or sum(self.sizes[key][1] for key in digests) <= self.limits.context_size:
            return [Group(self._texts(digests), digests)]
        return [leaf for half in _halves(digests, depth) if half for leaf in self._leaves(half, depth + 1)]

    def _texts(self, digests: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.sizes[key][0] for key in digests)


def _halves(digests: Sequence[str], depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those whose bit at ``depth`` is 0, and the others."""
    place, bit = divmod(depth, 4)
    zero = [not int(key[place], 16) >> (3 - bit) & 1 for key in digests]
    return (
        tuple(key for key, first in zip(digests, zero, strict=True) if first),
        tuple(key for key, first in zip(digests, zero, strict=True) if not first),
    )


def fact_name(fact: Entity | Relation) -> str:
    """What a fact is called in a request."""
    return fact.name if isinstance(fact, Entity) else f"{fact.first_name} – {fact.second_name}"


def readable_summary(reply: str, name: str, max_tokens: int, count: CountTokens, *, cut: bool = False) -> str:
    """A reply as it is kept: one line a paragraph, at most so long; empty if it is no summary.

    Args:
        reply: What the model wrote.
        name: What it was to write about: a reply that begins with it refuses nothing, whatever that name is.
        max_tokens: Ceiling; what is longer ends with the last whole sentence before it.
        count: Counts tokens.
        cut: Whether the reply was cut off: its last sentence is then not trusted.
    """
    text = clean(reply).text.strip()
    if fenced := _WRAPPING.match(text):
        text = fenced[1].strip()
    text = _LABEL.sub("", text).strip()
    refused = _REFUSAL.match(text) and not text.casefold().startswith(name.casefold())
    if refused or not any(c.isalnum() for c in text) or _FENCE.search(text):
        return ""
    paragraphs = (" ".join(line.split()) for line in html.unescape(text).splitlines())
    text = "\n".join(line for line in paragraphs if line)
    spans = sentences(text)
    if cut and len(spans) > 1:
        text = text[: spans[-2][1]]
    return _head(text, max_tokens, count)


def _head(text: str, limit: int, count: CountTokens) -> str:
    """As many whole sentences as fit, or as much of the first one as does."""
    if len(text.encode(errors="replace")) <= limit or count(text) <= limit:
        return text

    def counted(ends: Sequence[int]) -> int:
        return count(text[: ends[-1]]) if ends else 0

    ends = [end for _, end in sentences(text)]
    fitting = longest_prefix(ends, counted, limit) or longest_prefix(range(1, ends[0] + 1), counted, limit)
    return text[: fitting[-1]].rstrip() if fitting else ""
