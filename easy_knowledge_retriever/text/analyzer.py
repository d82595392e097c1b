"""Terms for BM25: folded, stemmed, without function words. Passages and questions are analysed alike."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import Final

import Stemmer

from easy_knowledge_retriever.text.folding import entity_key, fold
from easy_knowledge_retriever.text.language import guess_language
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["Analyzer", "analyze", "analyze_question", "entity_key", "fold"]

_ALGORITHMS: Final = {
    "en": "english",
    "fr": "french",
    "de": "german",
    "es": "spanish",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
    "ru": "russian",
    "el": "greek",
    "ar": "arabic",
}
"""Language code to its Snowball stemmer."""
_LATIN: Final = ("en", "fr", "de", "es", "it", "pt", "nl")
_FALLBACK: Final = "en"
"""What a text is stemmed as if nothing tells its language: most often names, numbers and tables."""
_MEMO_SIZE: Final = 200_000
"""Words remembered per language, some 30 MB at most."""

_UNSPACED: Final = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3\u3005\u3041-\u30ff"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
"""Scripts that put no space between words (and Hangul, whose words carry their particles): cut into bigrams."""
_INDIC: Final = r"\u0900-\u0963\u0966-\u0dff"
"""Scripts whose vowel signs are marks and yet inside the word."""
_TOKEN: Final = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_]|[{_INDIC}])+")
_SPACED_TOKEN: Final = re.compile(r"[^\W_]+")
_UNSPACED_START: Final = re.compile(f"[{_UNSPACED}]")
_HAS_SPECIAL: Final = re.compile(rf"[{_UNSPACED}{_INDIC}]")


class _Stems(dict[str, str]):
    """Word to its term in one language, empty for a function word. Fills itself, under a lock: a stemmer is not thread-safe."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer(_ALGORITHMS[language], 0)
        self._stopped = frozenset(map(fold, FUNCTION_WORDS.get(language, ())))
        self._lock = threading.Lock()

    def __missing__(self, word: str) -> str:
        with self._lock:
            if len(self) >= _MEMO_SIZE:
                self.clear()
            term = self[word] = "" if word in self._stopped else self._stemmer.stemWord(word)
        return term


class Analyzer:
    """Text to terms, with a memory of words already seen. Safe to share between threads.

    The words of a text are folded (case, accents, compatibility forms), freed of the function words of its language and stemmed
    by its Snowball algorithm. Apostrophes and hyphens separate, so elisions (``l'article``) and possessives need no rule. A run
    of Chinese, Japanese, Korean, Thai, Lao, Khmer or Burmese becomes its overlapping pairs of characters.

    A passage is analysed in the language of its document. The language of a short question is less sure, and it may ask in one
    language for names in another: :meth:`question_terms` gives each word's stems in every language it may be in. A stem that
    occurs nowhere costs nothing.
    """

    def __init__(self) -> None:
        self._stems = {language: _Stems(language) for language in _ALGORITHMS}

    def terms(self, text: str, language: str | None = None) -> tuple[str, ...]:
        """The terms of a passage, in order, repeated as often as they occur.

        Args:
            text: What to analyse.
            language: Language of its document (ISO 639-1); guessed from the text itself if None.
        """
        code = guess_language(text) if language is None else language
        stems = self._stems.get(code, self._stems[_FALLBACK])
        return tuple(term for word in _words(fold(text)) if (term := stems[word]))

    def question_terms(self, text: str, language: str | None = None) -> tuple[str, ...]:
        """The distinct terms of a question, in order.

        Args:
            text: The question.
            language: Its language, if the caller knows it; guessed if None.
        """
        code = guess_language(text) if language is None else language
        words = tuple(_words(fold(text)))
        known = tuple(dict.fromkeys((code, _FALLBACK))) if code in self._stems else _LATIN
        own = self._stems.get(code)
        kept = [word for word in words if own is None or own[word]]
        found = tuple(dict.fromkeys(term for word in kept for language in known if (term := self._stems[language][word])))
        return found or tuple(dict.fromkeys(words))


def _words(folded: str) -> Iterable[str]:
    if folded.isascii() or not _HAS_SPECIAL.search(folded):
        return _SPACED_TOKEN.findall(folded)
    return _with_bigrams(folded)


def _with_bigrams(folded: str) -> Iterator[str]:
    for token in _TOKEN.findall(folded):
        if len(token) < 3 or not _UNSPACED_START.match(token):
            yield token
        else:
            yield from (token[i : i + 2] for i in range(len(token) - 1))


_SHARED: Final = Analyzer()


def analyze(text: str, language: str | None = None) -> tuple[str, ...]:
    """Terms of a passage, see :meth:`Analyzer.terms`."""
    return _SHARED.terms(text, language)


def analyze_question(text: str, language: str | None = None) -> tuple[str, ...]:
    """Terms of a question, see :meth:`Analyzer.question_terms`."""
    return _SHARED.question_terms(text, language)
