"""A guess of a text's language, by its script and its function words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from easy_knowledge_retriever.text.folding import fold
from easy_knowledge_retriever.text.stopwords import FUNCTION_WORDS

__all__ = ["guess_language"]

_SAMPLE: Final = 4000
"""Characters looked at: some 600 words are more than enough."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_SCRIPTS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("ja", re.compile(r"[\u3041-\u30ff\uff66-\uff9f]")),
    ("ko", re.compile(r"[\u1100-\u11ff\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("el", re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
_KANA_SHARE: Final = 0.1
"""Japanese is told from Chinese by its kana, even where most letters are Han."""


def _weights() -> Mapping[str, tuple[tuple[str, float], ...]]:
    """Each function word, with and without accents, with the languages it speaks for: the fewer they are, the more."""
    speakers: dict[str, set[str]] = {}
    for language, words in FUNCTION_WORDS.items():
        for word in words:
            speakers.setdefault(word, set()).add(language)
            speakers.setdefault(fold(word), set()).add(language)
    return {word: tuple((language, 1 / len(languages)) for language in sorted(languages)) for word, languages in speakers.items()}


_WEIGHTS: Final = _weights()


def guess_language(text: str) -> str:
    """ISO 639-1 code of the language a text seems to be written in; empty if nothing tells.

    Seven languages of Latin script are told apart by function words: en, fr, de, es, it, pt, nl. Another script stands for
    its most common language. One question is enough where it has a few function words. Linear, and the same at every call.
    """
    sample = text[:_SAMPLE]
    return _by_script(sample) or _by_words(sample)


def _by_script(sample: str) -> str:
    if sample.isascii():
        return ""
    counts = {language: len(pattern.findall(sample)) for language, pattern in _SCRIPTS}
    letters = sum(map(len, _WORD.findall(sample)))
    if counts["ja"] > _KANA_SHARE * (counts["ja"] + counts["zh"]) and 2 * (counts["ja"] + counts["zh"]) > letters:
        return "ja"
    language = max(counts, key=lambda code: counts[code])
    return language if 2 * counts[language] > letters else ""


def _by_words(sample: str) -> str:
    scores: dict[str, float] = {}
    words = _WORD.findall(sample.casefold())
    for word in words:
        for language, weight in _WEIGHTS.get(word, ()):
            scores[language] = scores.get(language, 0.0) + weight
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    if not ranked:
        return ""
    (best, score), second = ranked[0], ranked[1][1] if len(ranked) > 1 else 0.0
    told = score >= max(0.75, 0.04 * len(words)) and score >= 1.15 * second
    return best if told else ""
