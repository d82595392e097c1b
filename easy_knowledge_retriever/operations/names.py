"""Names in a text, found without a model: runs of capitalised words, acronyms, quoted titles.

Precision matters more than recall: a wrong name joins passages that have nothing to do with each other. One pass over
the words; no backtracking.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final, NamedTuple

from easy_knowledge_retriever.text.folding import fold
from easy_knowledge_retriever.text.reference_rules import RULES
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["Name", "capitalised_words", "names_in", "without_article", "without_qualifier"]


class Name(NamedTuple):
    """A name in a text, with its span."""

    text: str
    start: int
    end: int
    type: str = "UNKNOWN"
    sentence: int = 0
    """Number of the sentence it stands in, from 0."""
    expansion: str = ""
    """What an acronym in parentheses stands for."""


class _Token(NamedTuple):
    text: str
    start: int
    end: int
    sentence: int
    initial: bool
    """First word of a sentence or a quotation, where any word may be capitalised."""
    capital: bool


_TOKEN: Final = re.compile(r"(?:[dljnscmtDLJNSCMT]|[qQ]u)['’](?=[^\W\d_]{3})|[^\W_]+(?:['’.][^\W_]+)*|\n\s*\n|\S")
_QUOTED: Final = re.compile(r"[\"“”«]\s?([^\"“”«»\n]{2,90}?)\s?[\"“”»]")
_WORD_AFTER_WORD: Final = re.compile(r"(?<=[\w,] )[^\W\d_]\w+")
_QUALIFIED: Final = re.compile(r"\s?\(([^()]{2,40})\)")
_TITLE_TAIL: Final = re.compile(r"\s*,\s(?:\d{1,2}(?:st|nd|rd|th)\s)?(?=[^\W\d_])")
_HYPHEN_SPACE: Final = re.compile(r"(?<=\w)- (?=\w)")
_SPACES: Final = re.compile(r"\s+")
_ROMAN: Final = re.compile(r"[IVXLC]+")
_QUALIFIER: Final = re.compile(r"\s*\([^()]*\)\s*$")

_CONNECTORS: Final = frozenset(
    "of the de du des del della delle dei di da do dos das van von der den zu zum zur ten ter y bin ibn ben bint mac al el la le "
    "les d' d’ l' l’".split()
)
_GERMAN_CONNECTORS: Final = frozenset(("von", "vom", "zu"))
_AFTER_CONNECTOR: Final = frozenset("the la le les las los l' l’ der den dem".split())
_ARTICLES: Final = frozenset("the a an le la les l' l’ der die das el los las il lo gli".split())
_ABBREVIATIONS: Final = frozenset(
    "st ste mt ft dr mr mrs ms jr sr prof rev hon gen col capt lt sgt no vs bros co inc ltd corp messrs mlle mme".split()
)
_HYPHENS: Final = frozenset("-‐‑–")
_SENTENCE_END: Final = frozenset(".!?…")
_OPENING: Final = frozenset(':"“”«»•*#|')
_CALENDAR: Final = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday thursday "
    "friday saturday sunday janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre lundi mardi "
    "mercredi jeudi vendredi samedi dimanche januar februar marz juni juli oktober dezember montag dienstag mittwoch donnerstag "
    "freitag samstag sonntag jan feb apr jun jul aug sep sept oct nov dec bc ad ce bce am pm".split()
)
_PEOPLES: Final = frozenset(
    "american british english french german italian spanish russian indian chinese japanese canadian australian irish scottish "
    "welsh dutch belgian swiss austrian polish czech slovak hungarian romanian bulgarian greek turkish swedish norwegian danish "
    "finnish icelandic portuguese brazilian mexican argentine chilean colombian peruvian cuban korean vietnamese thai filipino "
    "indonesian malaysian pakistani bangladeshi iranian iraqi israeli egyptian moroccan algerian tunisian nigerian kenyan "
    "ethiopian ukrainian serbian croatian slovenian bosnian albanian estonian latvian lithuanian georgian armenian european "
    "african asian arab arabic jewish christian catholic protestant muslim buddhist hindu latin roman soviet".split()
)
_RANKS: Final = frozenset(
    "king queen duke duchess earl count countess baron baroness viscount viscountess marquess marquis marchioness margrave "
    "prince princess lord lady bishop archbishop emperor empress sultan elector landgrave tsar grand archduke archduchess".split()
)
_QUALIFIERS: Final = {
    "film": "Content", "movie": "Content", "song": "Content", "album": "Content", "single": "Content", "novel": "Content",
    "book": "Content", "play": "Content", "opera": "Content", "series": "Content", "magazine": "Content", "newspaper": "Content",
    "band": "Organization", "company": "Organization", "politician": "Person", "actor": "Person", "actress": "Person",
    "singer": "Person", "musician": "Person", "director": "Person", "writer": "Person", "footballer": "Person",
    "painter": "Person", "artist": "Person", "composer": "Person", "bishop": "Person", "king": "Person", "queen": "Person",
    "city": "Location", "town": "Location", "village": "Location", "district": "Location", "river": "Location",
    "island": "Location",
}  # fmt: skip
_LAST_WORDS: Final = {
    **dict.fromkeys(
        "university institute college school company inc ltd corp corporation gmbh ministry council committee commission agency "
        "board party association society foundation bank club orchestra université institut école ministère".split(),
        "Organization",
    ),
    **dict.fromkeys("river lake island islands street avenue county province valley bay mountains park".split(), "Location"),
}
_TITLES: Final = frozenset("mr mrs ms dr prof sir dame king queen prince princess emperor empress pope saint president".split())
_BEFORE_NAMES: Final = _RANKS | _TITLES
_LONGEST: Final = 9
"""Words of a name at most: a longer run of capitals is a heading."""


def without_qualifier(name: str) -> str:
    """The name without a qualifier in parentheses at its end: ``New World (1995 film)`` is also called ``New World``."""
    return _QUALIFIER.sub("", name) or name


def without_article(name: str) -> str:
    """The name without the article before it: ``The Beatles`` are also called ``Beatles``."""
    first, _, rest = name.partition(" ")
    return rest.lstrip() if rest and first.lower() in _ARTICLES else name


def capitalised_words(text: str) -> set[str]:
    """Folded words that begin with a capital somewhere inside a sentence: likely names when they begin one, too."""
    return {fold(word) for word in _WORD_AFTER_WORD.findall(text) if word[0].isupper()}


def names_in(text: str, language: str = "en", known: AbstractSet[str] = frozenset(), phrases: Sequence[str] = ()) -> list[Name]:
    """The names in a text, in order, each time they occur.

    Args:
        text: Any text, a chunk or a question.
        language: Code of its language; in German every noun is capitalised, so only runs of several words count.
        known: Folded words that are names even where they begin a sentence, and alone in German.
        phrases: Names that are known as a whole, whatever their words look like.
    """
    tokens = _tokens(text)
    whole = [*_phrases(text, tokens, phrases), *_quoted(text, tokens)]
    found = _Reader(text, tokens, language, known).names()
    if whole:
        whole = [one for one in whole if not any(_inside(one, other) and other != one for other in whole)]
        found = [name for name in found if not any(_inside(name, other) for other in whole)]
    # of two readings of one span the one that tells more is kept
    by_place = {(name.start, name.end, name.text): name for name in sorted({*found, *whole}, key=lambda n: n.expansion)}
    return sorted(by_place.values(), key=lambda name: (name.start, name.end))


def _inside(one: Name, other: Name) -> bool:
    return other.start <= one.start and one.end <= other.end


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    sentence, initial, last = 0, True, ""
    for match in _TOKEN.finditer(text):
        word = match.group()
        first = word[0]
        if first.isalnum():
            tokens.append(_Token(word, match.start(), match.end(), sentence, initial, first.isupper()))
            initial = False
        else:
            tokens.append(_Token(word, match.start(), match.end(), sentence, False, False))
            if first == "\n" or (word in _SENTENCE_END and not (word == "." and _abbreviates(last))):
                sentence, initial = sentence + 1, True
            elif word in _OPENING:
                initial = True
        last = word
    return _without_numbered_parts(tokens)


def _without_numbered_parts(tokens: list[_Token]) -> list[_Token]:
    """``Article 6`` and ``Annex III`` are references, no names, and no parts of names."""
    for at, token in enumerate(tokens[:-1]):
        number = tokens[at + 1]
        if token.capital and token.text.lower() in RULES.kinds and (number.text[0].isdigit() or _ROMAN.fullmatch(number.text)):
            tokens[at] = token._replace(capital=False)
            tokens[at + 1] = number._replace(capital=False)
    return tokens


def _abbreviates(word: str) -> bool:
    return (len(word) == 1 and word.isupper()) or word.lower() in _ABBREVIATIONS or ("." in word and word[0].isupper())


class _Reader:
    """Reads the runs of capitals off the tokens of one text."""

    def __init__(self, text: str, tokens: Sequence[_Token], language: str, known: AbstractSet[str]) -> None:
        self._text = text
        self._tokens = tokens
        self._nouns_are_capital = language == "de"
        self._function_words = FUNCTION_WORDS.get(language, FUNCTION_WORDS["en"]) | FUNCTION_WORDS["en"]
        self._lower = {token.text for token in tokens if token.text[0].islower()}
        self._known = known if self._nouns_are_capital else {fold(t.text) for t in tokens if t.capital and not t.initial} | known
        self._connectors = _GERMAN_CONNECTORS if self._nouns_are_capital else _CONNECTORS

    def names(self) -> list[Name]:
        names: list[Name] = []
        at = 0
        while at < len(self._tokens):
            if not self._tokens[at].capital:
                at += 1
                continue
            end = self._run(at)
            name = self._name(at, end)
            if name is not None:
                names.append(name)
                names.extend(self._longer(name, end))
                names.extend(_without_rank(name))
            at = end
        return _with_ranks(self._text, names)

    def _run(self, at: int) -> int:
        """Index after the run of capitals that begins at ``at``."""
        end = at + 1
        while (after := self._joined(end)) > end:
            end = after
        return end

    def _joined(self, at: int) -> int:
        """Index after the next word of the run whose last word stands before ``at``; ``at`` if it ends there."""
        token, last = self._token(at), self._tokens[at - 1]
        if token is None or token.sentence != last.sentence:
            return at
        if token.capital:
            return at if token.initial else at + 1
        if token.text.isdigit():
            return at + 1 if len(token.text) <= 3 and last.capital and fold(last.text) not in _CALENDAR else at
        if token.text in self._connectors:
            return self._after_connectors(at)
        return at + 2 if self._capital(at + 1) and self._joins(last, token, self._tokens[at + 1]) else at

    def _joins(self, last: _Token, mark: _Token, following: _Token) -> bool:
        """Whether a mark holds the words around it together: ``St. Maurice``, ``Jean-Paul``, ``Black & White``."""
        if mark.text == "." and mark.start == last.end:
            return _abbreviates(last.text) and following.text.lower() not in self._function_words
        return mark.text == "&" or (mark.text in _HYPHENS and mark.start == last.end)

    def _after_connectors(self, at: int) -> int:
        step = at + 1
        while step < at + 3 and (following := self._token(step)) is not None and following.text in _AFTER_CONNECTOR:
            step += 1
        return step + 1 if self._capital(step) else at

    def _token(self, at: int) -> _Token | None:
        return self._tokens[at] if at < len(self._tokens) else None

    def _capital(self, at: int) -> bool:
        token = self._token(at)
        return token is not None and token.capital and not token.initial

    def _name(self, start: int, end: int) -> Name | None:
        tokens = self._tokens
        while start < end and self._opens(start, end):
            start += 1
        words = [token for token in tokens[start:end] if token.text[0].isalnum()]
        if not words or len(words) > _LONGEST or not words[0].capital or _shouted(words):
            return None
        if len(words) == 1 and not self._stands_alone(words[0]):
            return None
        if fold(words[-1].text) in _CALENDAR and len(words) <= 2:
            return None
        first, last = tokens[start].start, tokens[end - 1].end
        text = _clean(self._text[first:last])
        return Name(text, first, last, _type_of(words), tokens[start].sentence) if len(text) > 1 else None

    def _opens(self, at: int, end: int) -> bool:
        """Whether the word is no part of the name but capitalised because a sentence begins."""
        token = self._tokens[at]
        if not token.capital:
            return True
        word = token.text.lower()
        if fold(token.text) in _CALENDAR:
            return True
        if not token.initial:
            return end - at == 1 and word in _ARTICLES
        return word in _ARTICLES or word in self._function_words or (word in self._lower and end - at > 1)

    def _stands_alone(self, token: _Token) -> bool:
        """Whether one capitalised word is a name by itself."""
        bare = _clean(token.text)
        word = fold(bare)
        acronym = bare.isupper() and 2 <= len(bare) <= 6
        if _ROMAN.fullmatch(bare) or word in _CALENDAR or word in _PEOPLES or len(bare) < (2 if acronym else 3):
            return False
        if acronym:
            return True
        if bare.lower() in self._function_words or bare.isupper():
            return False
        return word in self._known if token.initial or self._nouns_are_capital else True

    def _longer(self, name: Name, end: int) -> list[Name]:
        """The longer forms of a name that go on in parentheses: ``New World (1995 film)``, ``European Union (EU)``."""
        match = _QUALIFIED.match(self._text, name.end) if (t := self._token(end)) is not None and t.text == "(" else None
        if match is None:
            return []
        inner = match.group(1).strip()
        kind = _QUALIFIERS.get(inner.rsplit(" ", 1)[-1].lower())
        if kind is not None:
            return [Name(f"{name.text} ({inner})", name.start, match.end(), kind, name.sentence)]
        if inner.isupper() and inner.isalpha() and len(inner) <= 8 and _initials(inner, name.text):
            return [Name(inner, match.start(1), match.end(1), name.type, name.sentence, name.text)]
        return []


def _shouted(words: Sequence[_Token]) -> bool:
    """A line in capitals tells nothing about names."""
    return sum(1 for token in words if token.text.isupper() and len(token.text) > 3) >= 2


def _clean(name: str) -> str:
    """The name as it is written elsewhere: one blank between words, no possessive, no blank after a hyphen."""
    plain = _HYPHEN_SPACE.sub("-", _SPACES.sub(" ", name))
    for ending in ("'s", "’s", "'", "’"):
        if plain.endswith(ending):
            return plain[: -len(ending)]
    return plain


def _initials(acronym: str, name: str) -> bool:
    letters = iter(fold(acronym))
    wanted = next(letters, "")
    for word in fold(name).replace("-", " ").split():
        if word[0] == wanted:
            wanted = next(letters, "")
    return wanted == ""


def _type_of(words: Sequence[_Token]) -> str:
    if len(words) > 1 and words[0].text.lower() in _TITLES:
        return "Person"
    return _LAST_WORDS.get(words[-1].text.lower(), "UNKNOWN") if len(words) > 1 else "UNKNOWN"


def _without_rank(name: Name) -> list[Name]:
    """The bare name where a rank stands before it: ``Roman Emperor Theodosius II`` is ``Theodosius II``."""
    words = name.text.split(" ")
    for at in range(len(words) - 2, -1, -1):
        rest = " ".join(words[at + 1 :])
        if words[at].lower() in _BEFORE_NAMES and len(rest) > 2 and rest[0].isupper() and not _ROMAN.fullmatch(rest):
            return [name._replace(text=rest, start=name.end - len(rest), type="Person")]
    return []


def _with_ranks(text: str, names: list[Name]) -> list[Name]:
    """The names, and ``Lambert, Margrave of Tuscany`` where a name is followed by a rank."""
    longer = []
    for name, following in pairwise(names):
        if following.text.split(" ", 1)[0].lower() not in _RANKS or " " not in following.text:
            continue
        gap = _TITLE_TAIL.match(text, name.end)
        if gap is not None and gap.end() == following.start:
            longer.append(Name(_clean(text[name.start : following.end]), name.start, following.end, "Person", name.sentence))
    return [*names, *longer]


def _sentence_at(tokens: Sequence[_Token], offset: int) -> int:
    at = bisect_right(tokens, offset, key=lambda token: token.start) - 1
    return tokens[at].sentence if at >= 0 else 0


def _phrases(text: str, tokens: Sequence[_Token], phrases: Sequence[str]) -> list[Name]:
    found = []
    for phrase in phrases:
        at = text.find(phrase)
        while at >= 0:
            end = at + len(phrase)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                found.append(Name(phrase, at, end, "UNKNOWN", _sentence_at(tokens, at)))
            at = text.find(phrase, end)
    return found


def _quoted(text: str, tokens: Sequence[_Token]) -> list[Name]:
    """Titles in quotation marks: they begin with a capital or a figure and are no sentence."""
    titles = []
    for match in _QUOTED.finditer(text):
        title = _clean(match.group(1)).strip(" ,.;")
        if not title or not (title[0].isupper() or title[0].isdigit()) or len(title.split()) > _LONGEST or ". " in title:
            continue
        if any(c.isalpha() for c in title) and (" " in title or len(title) > 2):
            titles.append(Name(title, match.start(1), match.end(1), "UNKNOWN", _sentence_at(tokens, match.start(1))))
    return titles
