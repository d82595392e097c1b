"""Counting and cutting text in tokens, without a network."""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from easy_knowledge_retriever.errors import ConfigError

if TYPE_CHECKING:
    import tiktoken

__all__ = ["TiktokenTokenizer", "TokenCounter", "Tokenizer", "token_offsets"]

_RANKS = Path(__file__).parent / "data" / "o200k_base" / "o200k_base.tiktoken.gz"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# How the vocabulary cuts text before it merges bytes: words with the character before them, by case; digits by three;
# punctuation; line ends; spaces.
_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

_REMEMBERED = 20_000
"""Counts kept, some 3 MB."""
_LONGEST_RUN = 2000
# Each run is looked at from its first character only, so the search is linear.
_LONG_RUN = re.compile(rf"(?<!\S)\S{{{_LONGEST_RUN + 1},}}+|(?<!\s)\s{{{_LONGEST_RUN + 1},}}+")


class Tokenizer(Protocol):
    """Cuts text into tokens as some model does; users may bring their own."""

    def encode(self, content: str) -> list[int]:
        """The tokens of a text."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens."""
        ...


class TiktokenTokenizer:
    """The tokenizer of OpenAI's models since GPT-4o (``o200k_base``), its vocabulary part of this package.

    Every model name is counted with this one vocabulary. For the models before (``cl100k_base``: GPT-4, GPT-3.5,
    text-embedding-3) that is an approximation: equal within a hundredth for English and code, but a fifth too low for
    French, say. Who needs an exact count for another model brings a ``Tokenizer``.

    Runs of more than 2,000 characters without white space, or of nothing else, are cut there first, which keeps the time
    linear in the length of the text; other texts give the same tokens as tiktoken itself. Halves of surrogate pairs count
    as ``?``.

    The vocabulary is read at the first use, once a process; that takes about half a second, better not on the event loop.

    Args:
        model_name: The model whose tokens are meant.
    """

    def __init__(self, model_name: str = "gpt-4o-mini") -> None:
        self.model_name = model_name

    def encode(self, content: str) -> list[int]:
        """The tokens of a text.

        Raises:
            ConfigError: The vocabulary in the package is missing or damaged.
        """
        encoding = _vocabulary().encoding
        return [token for piece in _pieces(_writable(content)) for token in encoding.encode_ordinary(piece)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; bytes that are no whole character become U+FFFD.

        Raises:
            KeyError: There is no such token.
        """
        return _vocabulary().encoding.decode(list(tokens))

    def count(self, text: str) -> int:
        """How many tokens a text has."""
        return len(self.encode(text))

    def offsets(self, text: str) -> list[int]:
        """The place of the first character of each token; a token that begins inside a character has the place of that."""
        tokens = self.encode(text)
        lengths = _vocabulary().lengths[tokens]
        starts = np.cumsum(lengths) - lengths
        if not text.isascii():
            encoded = np.frombuffer(_writable(text).encode(), np.uint8)
            first_bytes = (encoded & 0xC0) != 0x80
            starts = (np.cumsum(first_bytes) - 1)[starts]
        return [int(start) for start in starts]


class TokenCounter:
    """Counts the tokens of texts, and remembers: a fact or passage comes back in many contexts. Safe to share between threads.

    Args:
        tokenizer: Any tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[bytes, int] = {}

    def __call__(self, text: str) -> int:
        """How many tokens a text has."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        count = self._known.get(key)
        if count is None:
            count = len(self._tokenizer.encode(text))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = count
        return count

    @property
    def adds_up(self) -> bool:
        """Whether elements that stand one a line have the tokens of each with its line break, summed.

        Elements begin with ``<`` and end with ``>``; ``TiktokenTokenizer`` always cuts between ``>`` with its line break and
        ``<``. Nothing of the kind is known of other tokenizers.
        """
        return isinstance(self._tokenizer, TiktokenTokenizer)


def token_offsets(tokenizer: Tokenizer, text: str) -> list[int]:
    """The place in the text of the first character of each token, never falling.

    Exact for ``TiktokenTokenizer`` and for any tokenizer whose single tokens, decoded, make up the text. Of others (which
    fold case, say) only the number of tokens is known; their places are spread evenly.

    Args:
        tokenizer: Any tokenizer.
        text: Any text.
    """
    if isinstance(tokenizer, TiktokenTokenizer):
        return tokenizer.offsets(text)
    tokens = tokenizer.encode(text)
    pieces = [tokenizer.decode([token]) for token in tokens]
    if "".join(pieces) == text:
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        return [int(start) for start in np.cumsum(lengths) - lengths]
    return [place * len(text) // len(tokens) for place in range(len(tokens))]


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    encoding: tiktoken.Encoding
    lengths: NDArray[np.int64]
    """How many bytes each token has."""


@functools.cache
def _vocabulary() -> _Vocabulary:
    import tiktoken  # noqa: PLC0415  # slow to import, and wanted only where tokens are counted

    hint = "reinstall the package, or bring a tokenizer of your own"
    try:
        content = gzip.decompress(_RANKS.read_bytes())
    except (OSError, EOFError) as error:
        raise ConfigError(f"the vocabulary {str(_RANKS)!r} cannot be read: {error}", hint=hint) from error
    if hashlib.sha256(content).hexdigest() != _RANKS_SHA256:
        raise ConfigError(f"the vocabulary {str(_RANKS)!r} is damaged", hint=hint)
    ranks = {b64decode(token): int(rank) for token, rank in (line.split() for line in content.splitlines())}
    lengths = np.zeros(max(ranks.values()) + 1, np.int64)
    lengths[list(ranks.values())] = [len(token) for token in ranks]
    encoding = tiktoken.Encoding(
        "o200k_base",
        pat_str=_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    )
    return _Vocabulary(encoding, lengths)


def _writable(text: str) -> str:
    """The text with each half of a surrogate pair, which UTF-8 cannot hold, replaced by one character."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _may_have_long_runs(text: str) -> bool:
    """A check that is much cheaper than the search, and only ever wrong in saying yes."""
    words = text.split()
    longest = max(map(len, words), default=0)
    blanks = len(text) - sum(map(len, words)) - len(words)
    return longest > _LONGEST_RUN or blanks >= _LONGEST_RUN


def _pieces(text: str) -> Iterator[str]:
    """The text, cut within runs that are too long."""
    if not _may_have_long_runs(text):
        yield text
        return
    start = 0
    for run in _LONG_RUN.finditer(text):
        for end in range(run.start() + _LONGEST_RUN, run.end(), _LONGEST_RUN):
            yield text[start:end]
            start = end
    yield text[start:]
