"""What a question speaks of, found without a model: names, phrases, themes, and the entities it may mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.operations.base import KeywordExtractor, Keywords
from easy_knowledge_retriever.text.folding import entity_key
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["LocalKeywords", "NameCandidate", "choose_names", "follow_up_names", "name_candidates"]

LONGEST_NAME = 12
"""Words in the longest name looked for."""
_TOKEN = re.compile(r"\S+")
_LEFT = "\"'«“‘([{¿¡"
_RIGHT = "\"'»”’)]}?!.,;:…"
_POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$", re.IGNORECASE)
_ELISION = re.compile(r"^(?:[ldjmtsncLDJMTSNC]|qu|Qu|QU)['’](?=\w)")
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


def _small_words(question: str) -> frozenset[str]:
    return FUNCTION_WORDS.get(guess_language(question), FUNCTION_WORDS["en"]) | _ASKING


def _tokens(question: str) -> list[_Token]:
    tokens = []
    small = _small_words(question)
    for match in _TOKEN.finditer(question):
        raw, start = match.group(), match.start()
        elided = _ELISION.match(raw)
        if elided:
            raw, start = raw[elided.end() :], start + elided.end()
        inner = raw.lstrip(_LEFT)
        left = len(raw) - len(inner)
        core = inner.rstrip(_RIGHT)
        if core:
            begin = start + left
            end = begin + len(core)
            tail = question[end : match.end()]
            tokens.append(
                _Token(core, begin, end, left > 0, match.end(), any(c in ",;:.?!" for c in tail), core.casefold() in small)
            )
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
    given both with and without.
    """
    tokens = _tokens(question)
    cased = any(token.capital for token in tokens[1:])
    found: dict[str, NameCandidate] = {}
    for length in range(min(LONGEST_NAME, len(tokens)), 0, -1):
        for position in range(len(tokens) - length + 1):
            words = tokens[position : position + length]
            if not _may_be_name(words):
                continue
            strong = _is_strong(words, cased)
            for start, end in sorted(_variants(question, words[0], words[-1])):
                text = question[start:end].strip()
                key = entity_key(text)
                if key and key not in found:
                    found[key] = NameCandidate(key, text, start, end, strong)
    return tuple(found.values())


def _may_be_name(words: Sequence[_Token]) -> bool:
    first, last = words[0], words[-1]
    if all(word.function and not word.capital for word in words):
        return False
    return not (last.function and not last.capital) and not (first.function and not first.capital)


def _is_strong(words: Sequence[_Token], cased: bool) -> bool:
    content = [word for word in words if not word.function]
    if len(content) >= 2 or words[0].opens:
        return True
    if cased:
        return any(word.capital for word in content) or (len(words) > 1 and all(word.capital for word in words))
    return False


def choose_names(candidates: Sequence[NameCandidate], known: Collection[str]) -> tuple[str, ...]:
    """Keys of the candidates that exist, longest first, each word of the question spent once.

    A single common word counts only where nothing better was found.

    Args:
        candidates: From :func:`name_candidates`.
        known: Entity keys that exist.
    """
    existing = [candidate for candidate in candidates if candidate.key in known]
    chosen = _disjoint([candidate for candidate in existing if candidate.strong])
    if not chosen:
        chosen = _disjoint(existing)
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
        low = tuple(dict.fromkeys(name for name, _, _ in names)) or phrases
        high = phrases or low
        return Keywords(high=high, low=low)


def _surface_names(question: str) -> list[tuple[str, int, int]]:
    """Maximal runs of capitalised words, small words inside allowed; a first word counts if it is not a function word."""
    tokens = _tokens(question)
    names: list[tuple[str, int, int]] = []
    run: list[_Token] = []
    for position, token in enumerate(tokens):
        if token.capital and not (token.function and (position == 0 or not run)):
            run.append(token)
        elif run and token.function and not token.breaks:
            run.append(token)
            continue
        else:
            _close(question, run, names)
            run = []
            continue
        if token.breaks:
            _close(question, run, names)
            run = []
    _close(question, run, names)
    return names


def _close(question: str, run: list[_Token], names: list[tuple[str, int, int]]) -> None:
    while run and run[-1].function and not run[-1].capital:
        run.pop()
    # "Paris and Rome" is two names, "Bank of England" is one: a run is cut at conjunctions
    parts: list[list[_Token]] = [[]]
    for token in run:
        if token.folded in {"and", "or", "et", "ou", "is", "was", "are", "est", "by", "in", "par"}:
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts:
        while part and part[0].function and not part[0].capital:
            part.pop(0)
        while part and part[-1].function and not part[-1].capital:
            part.pop()
        if part:
            text = _POSSESSIVE.sub("", question[part[0].start : part[-1].end])
            names.append((text, part[0].start, part[0].start + len(text)))


def _phrases(question: str, names: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    """Runs of content words outside the names."""
    small = _small_words(question)
    phrases: list[str] = []
    run: list[str] = []
    for match in _WORD.finditer(question):
        word = match.group()
        inside = any(start <= match.start() < end for _, start, end in names)
        if inside or word.casefold() in small:
            phrases.append(" ".join(run))
            run = []
        else:
            run.append(word)
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
