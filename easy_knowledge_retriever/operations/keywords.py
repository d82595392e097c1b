"""What a question speaks of, found without a model: names, phrases, themes, and the entities it may mean."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from easy_knowledge_retriever.operations.base import KeywordExtractor, Keywords
from easy_knowledge_retriever.operations.names import names_in
from easy_knowledge_retriever.operations.references import cross_references
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["LocalKeywords", "NameCandidate", "choose_names", "follow_up_names", "name_candidates", "search_names"]

LONGEST_NAME = 12
"""Words in the longest name looked for."""
_TOKEN = re.compile(r"\S+")
_LEFT = "\"'«“‘([{¿¡"
_RIGHT = "\"'»”’)]}?!.,;:…"
_POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$", re.IGNORECASE)
_ELISION = re.compile(r"^(?:[ldjmtsncLDJMTSNC]|qu|Qu|QU)['’](?=\w)")
_INVERSION = re.compile(r"(?:-t)?-(?:ils?|elles?|on|je|tu|nous|vous|ce)$", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")

_ASKING = frozenset(
    """ask call called tell told give gives name named list explain describe please show say says many much often long
    nombre combien appelle appelé donner donnez expliquer décrire citer citez""".split()
)
"""Words of asking, which are no keyword either."""
_ANAPHORA = frozenset(
    """it its he his him she her hers they their theirs them this that these those there one ones same
    il elle ils elles son sa ses leur leurs lui celui celle ceux celles cela ça ce cet cette ces y en""".split()
)


@dataclass(frozen=True, slots=True)
class NameCandidate:
    """Words of a question that may be a name."""

    key: str
    """Entity key."""
    text: str
    start: int
    end: int
    """Span in the question."""
    strong: bool
    """Written like a name (capital letters, digits, quotes) or of several content words; a single common word is not."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    opens: bool
    """Quotes or brackets stood before it."""
    ends: int
    """End of the token with its trailing punctuation."""
    breaks: bool
    """A comma, colon or the end of a sentence follows: a phrase ends here, though a name may go on."""
    function: bool
    """A function word, or a word of asking: never a keyword by itself."""

    @property
    def folded(self) -> str:
        return self.text.casefold()

    @property
    def capital(self) -> bool:
        return any(c.isupper() or c.isdigit() for c in self.text)


_READ: Final = 4000
"""Characters of a question in which names are looked for at every place."""


@functools.lru_cache(maxsize=64)
def _small_words(question: str) -> frozenset[str]:
    return FUNCTION_WORDS.get(guess_language(question), FUNCTION_WORDS["en"]) | _ASKING


def _tokens(question: str) -> list[_Token]:
    tokens = []
    small = _small_words(question)
    for match in _TOKEN.finditer(question):
        raw, start = match.group(), match.start()
        elided = _ELISION.match(raw)
        if elided:
            tokens.append(_Token(elided.group(), start, start + elided.end(), False, start + elided.end(), False, True))
            raw, start = raw[elided.end() :], start + elided.end()
        inner = raw.lstrip(_LEFT)
        left = len(raw) - len(inner)
        core = inner.rstrip(_RIGHT)
        if core:
            begin = start + left
            end = begin + len(core)
            tail = question[end : match.end()]
            small_word = core.casefold() in small
            tokens.append(_Token(core, begin, end, left > 0, match.end(), any(c in ",;:.?!" for c in tail), small_word))
    return tokens


def _variants(question: str, first: _Token, last: _Token) -> set[tuple[int, int]]:
    """Spans that a name from one token to another may have: bare, with its punctuation, without a possessive."""
    spans = {(first.start, last.end)}
    if last.ends > last.end:
        spans.add((first.start, last.ends))
        spans.add((first.start, last.end + 1))
    if first.opens:
        spans.add((first.start - 1, last.end + 1))
    possessive = _POSSESSIVE.search(question[first.start : last.end])
    if possessive:
        spans.add((first.start, first.start + possessive.start()))
    return spans


def name_candidates(question: str) -> tuple[NameCandidate, ...]:
    """Every run of words that may be a name, longest first, to be looked up exactly in a graph.

    "Name (qualifier)" comes out with and without its qualifier; a possessive ``'s`` and surrounding punctuation are
    given both with and without. Single common words come only from a question that is written without capitals. Of a
    question as long as a document only the beginning is read.
    """
    tokens = _tokens(question[:_READ])
    cased = any(token.capital for token in tokens[1:])
    found: dict[str, NameCandidate] = {}
    for length in range(min(LONGEST_NAME, len(tokens)), 0, -1):
        for position in range(len(tokens) - length + 1):
            words = tokens[position : position + length]
            if not _may_be_name(words):
                continue
            strong = _is_strong(words)
            if cased and not strong:
                continue
            for start, end in sorted(_variants(question, words[0], words[-1])):
                text = question[start:end].strip()
                key = entity_key(text)
                if key and key not in found:
                    found[key] = NameCandidate(key, text, start, end, strong)
    for text, start, end in _numbered(question):
        found.setdefault(entity_key(text), NameCandidate(entity_key(text), text, start, end, strong=True))
    return tuple(found.values())


def _may_be_name(words: Sequence[_Token]) -> bool:
    first, last = words[0], words[-1]
    if all(word.function and not word.capital for word in words):
        return False
    return not (last.function and not last.capital) and not (first.function and not first.capital)


def _is_strong(words: Sequence[_Token]) -> bool:
    content = [word for word in words if not word.function]
    if len(content) >= 2 or words[0].opens:
        return True
    return any(word.capital for word in content) or (len(words) > 1 and all(word.capital for word in words))


def choose_names(candidates: Sequence[NameCandidate], known: Collection[str]) -> tuple[str, ...]:
    """Keys of the candidates that exist, longest first, each word of the question spent once.

    A single common word counts only in a question without capitals where nothing better was found.

    Args:
        candidates: From :func:`name_candidates`.
        known: Entity keys that exist.
    """
    existing = [candidate for candidate in candidates if candidate.key in known]
    chosen = _disjoint([candidate for candidate in existing if candidate.strong]) or _disjoint(existing)
    return tuple(dict.fromkeys(candidate.key for candidate in chosen))


def _disjoint(candidates: Sequence[NameCandidate]) -> list[NameCandidate]:
    chosen: list[NameCandidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.start - c.end, c.start)):
        if all(candidate.end <= other.start or candidate.start >= other.end for other in chosen):
            chosen.append(candidate)
    return chosen


class LocalKeywords(KeywordExtractor):
    """Keywords by the look of the words: names and phrases are details, the content words around them are themes."""

    async def keywords(self, question: str) -> Keywords:
        """Names and noun-like phrases as details, what is asked about them as themes."""
        names = _surface_names(question)
        phrases = _phrases(question, names)
        low = tuple(dict.fromkeys(name for name, _, _ in (*names, *_numbered(question)))) or phrases
        high = phrases or low
        return Keywords(high=high, low=low)


def search_names(question: str) -> tuple[str, ...]:
    """The names a question is written with, whether or not any graph knows them, each once and in order."""
    return tuple(dict.fromkeys(name for name, _, _ in _surface_names(question)))


def _surface_names(question: str) -> list[tuple[str, int, int]]:
    """Names by their look, with their spans; where one lies inside another, the longer one."""
    found = names_in(question, guess_language(question) or "en", phrases=[name for name, _, _ in _numbered(question)])
    longest = [n for n in found if not any(o is not n and o.start <= n.start and n.end <= o.end for o in found)]
    return [(name.text, name.start, name.end) for name in longest]


def _numbered(question: str) -> list[tuple[str, int, int]]:
    """Numbered parts a question asks about, such as ``Article 6`` where it says ``Article 6(4)``."""
    return [(found.name, found.start, found.end) for found in cross_references(question)]


def _phrases(question: str, names: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    """Runs of content words outside the names."""
    phrases: list[str] = []
    run: list[str] = []
    small = _small_words(question)
    for token in _tokens(question):
        inside = any(start <= token.start < end for _, start, end in names)
        word = _INVERSION.sub("", token.text)
        plain = not inside and not token.function and word.casefold() not in small
        if plain:
            run.append(word)
        if not plain or token.breaks or word != token.text:
            phrases.append(" ".join(run))
            run = []
    phrases.append(" ".join(run))
    return tuple(dict.fromkeys(phrase for phrase in phrases if phrase))


def follow_up_names(question: str, earlier: str) -> tuple[str, ...]:
    """Names of an earlier question that this one leaves out, if it looks like a follow-up; else nothing.

    It looks like one if it holds a pronoun or names nothing itself.

    Args:
        question: The question now.
        earlier: The last question of the user before it.
    """
    own = {name for name, _, _ in _surface_names(question)}
    words = {match.group().casefold() for match in _WORD.finditer(question)}
    if own and not words & _ANAPHORA:
        return ()
    before = _surface_names(earlier)
    wanted = [name for name, _, _ in before] or list(_phrases(earlier, before))
    return tuple(dict.fromkeys(name for name in wanted if name not in own))
