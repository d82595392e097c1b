"""What a language model may answer, made from the request alone: the chat modes of the test server."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from easy_knowledge_retriever.testing.faults import Fault
from easy_knowledge_retriever.text.sentences import sentences

__all__ = [
    "Chat",
    "ChatMode",
    "ChatReply",
    "Lie",
    "assistant",
    "copying",
    "extractor",
    "gullible",
    "lies",
    "lying",
    "reading",
    "scripted",
]


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat request, read."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """The last message."""
        return str(self.messages[-1].get("content", "")) if self.messages else ""

    @property
    def text(self) -> str:
        """All messages."""
        return "\n".join(str(message.get("content", "")) for message in self.messages)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """An answer, where more than its text matters."""

    text: str | None
    finish_reason: str = "stop"
    message: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the message, such as ``reasoning_content`` or ``refusal``."""
    pieces: Sequence[str] | None = None
    """How it is streamed; word by word if None."""
    pause: float = 0.0
    """Seconds between two streamed pieces."""


ChatMode = Callable[[Chat], str | ChatReply | Fault]
"""Answers a chat request, or says what goes wrong with it."""


def scripted(replies: Iterable[str | ChatReply | Fault]) -> ChatMode:
    """Answers with these replies in order, a request each; one request more is refused with 400.

    Args:
        replies: Texts, replies and faults.
    """
    rest = iter(replies)
    over = {"error": {"message": "the script is over: it holds no reply to this request", "type": "test"}}
    return lambda _: next(rest, Fault(400, body=over))


_PASSAGE_TO_READ = re.compile(r"<text-(\w+)>\n(.*?)\n</text-\1>", re.DOTALL)
_STATEMENTS = re.compile(r"^Subject: ([^\n]*)\n<statements-(\w+)>\n(.*?)\n</statements-\2>", re.DOTALL)
_CONTEXT = re.compile(r"<context-(\w+)>\n(.*?)\n</context-\1>", re.DOTALL)
_QUESTION = re.compile(r"<question-(\w+)>\n(.*?)\n</question-\1>", re.DOTALL)
_CONVERSATION = re.compile(r"<conversation-(\w+)>\n(.*?)\n</conversation-\1>", re.DOTALL)
_WHOLE = re.compile(r"<whole-(\w+)>\n(.*?)\n</whole-\1>", re.DOTALL)
_PASSAGE = re.compile(r'<passage id="(\d+)"[^>]*?(?: page="([\d-]+)")?(?: heading="[^"]*")?>\n(.*?)\n</passage>', re.DOTALL)
_REFUSAL = re.compile(r"exactly this sentence: (.+)")
_ASKED = re.compile(r"\nQuestion: (.+)", re.DOTALL)
_NAME = re.compile(r"\b[A-ZÀ-Ý][\w'’-]+(?: (?:of |the |de |du |la )?[A-ZÀ-Ý0-9][\w'’-]*)*")
_WORD = re.compile(r"\w{4,}")


def assistant(chat: Chat) -> str:
    """Does what each of this library's prompts asks for, and repeats any other prompt."""
    for asked, answer in _TASKS:
        if found := asked.search(chat.prompt):
            return answer(chat, found)
    return "END" if _PASSAGE_TO_READ.search(chat.text) else chat.prompt


def reading(replies: Mapping[str, str]) -> ChatMode:
    """Writes of each passage what was written of it before, finds nothing more in a second round, and else is the assistant.

    A passage is known by its letters and digits, with or without a heading line: a parser may clean the rest. One that is
    not known is refused with 400.

    Args:
        replies: Text of a passage to what is written of it.
    """
    known = {_letters(text): reply for text, reply in replies.items()}
    unknown = Fault(400, body={"error": {"message": "nothing was written of this passage", "type": "test"}})

    def mode(chat: Chat) -> str | Fault:
        found = _PASSAGE_TO_READ.search(chat.prompt)
        if not found:
            return assistant(chat)
        first, _, rest = found[2].strip().partition("\n")
        body = rest if first.startswith("#") else found[2]
        return known.get(_letters(body), known.get(_letters(found[2]), unknown))

    return mode


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _split(_: Chat, whole: re.Match[str]) -> str:
    """The questions that a question is made of."""
    return "\n".join(re.split(r" and (?=wh|how)", whole[2], flags=re.IGNORECASE))


def _keywords(_: Chat, asked: re.Match[str]) -> str:
    """Words of a question as its themes, names in it as its details."""
    names = [name for name in _NAME.findall(asked[2]) if not asked[2].startswith(name)]
    return f"THEMES: {'; '.join(_WORD.findall(asked[2].lower())[:4])}\nDETAILS: {'; '.join(names)}"


def _summary(_: Chat, said: re.Match[str]) -> str:
    """The statements as one text that begins with the name: each once, in order."""
    lines = dict.fromkeys(line.removeprefix("- ").rstrip(".") for line in said[3].splitlines())
    return f"{said[1]}: {'. '.join(lines)}."


def _follow_up(chat: Chat, conversation: re.Match[str]) -> str:
    """The question with the names of the last turn of the user behind it."""
    asked = _QUESTION.search(chat.prompt)
    question = asked[2] if asked else ""
    turns = re.findall(r'<turn role="user">(.*?)</turn>', conversation[2], re.DOTALL)
    names = [name for name in _NAME.findall(html.unescape(turns[-1])) if not turns[-1].startswith(name)] if turns else []
    return f"{question.rstrip(' ?')} ({', '.join(names)})?" if names else question


def extractor(chat: Chat) -> str:
    """Entities: capitalised words; relations: two of them in one sentence. In the form the extraction prompt asks for."""
    found = _PASSAGE_TO_READ.search(chat.prompt)
    if not found:
        return "END"
    text = found[2]
    names: dict[str, str] = {}
    pairs: dict[tuple[str, str], str] = {}
    for start, end in sentences(text):
        sentence = " ".join(text[start:end].replace("|", "/").split())
        here = list(dict.fromkeys(name for name in _NAME.findall(sentence) if len(name) > 2))
        names |= {name: sentence for name in here if name not in names}
        pairs |= {pair: sentence for pair in itertools.pairwise(here) if pair not in pairs}
    lines = [f"E | {name} | Concept | {sentence}" for name, sentence in names.items()]
    lines += [f"R | {one} | {other} | mentioned together | 5 | {sentence}" for (one, other), sentence in pairs.items()]
    return "\n".join([*lines[:60], "END"])


def copying(chat: Chat) -> str:
    """Up to three sentences of the passages that share most words with the question, each cited; else the refusal."""
    refusal = _REFUSAL.search(chat.prompt)
    best = _best_sentences(chat)[:3]
    best = [row for row in best if row.overlap and row.overlap >= best[0].overlap - 1]
    if not best:
        return refusal[1].strip() if refusal else "Nothing was given."
    return " ".join(f"{row.text.rstrip('.')} {_marker(row.number, row.pages)}." for row in best)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a passage in a prompt."""

    number: str
    pages: str
    text: str
    overlap: int
    """Words it shares with the question."""


def _best_sentences(chat: Chat) -> list[_Sentence]:
    """The sentences of the passages, those that share most words with the question first."""
    found, asked = _CONTEXT.search(chat.prompt), _ASKED.search(chat.prompt)
    wanted = set(_WORD.findall(asked[1].lower())) if asked else set()
    rows: list[_Sentence] = []
    for number, pages, passage in _PASSAGE.findall(found[2]) if found else []:
        text = html.unescape(passage)
        for start, end in sentences(text):
            sentence = " ".join(text[start:end].split())
            rows.append(_Sentence(number, pages, sentence, len(wanted.intersection(_WORD.findall(sentence.lower())))))
    return sorted(rows, key=lambda row: -row.overlap)


def _marker(number: str, pages: str) -> str:
    return f"[{number}, p. {pages}]" if pages else f"[{number}]"


@dataclass(frozen=True, slots=True)
class Lie:
    """A sentence of an answer and what is wrong with it."""

    kind: str
    """``page``, ``id``, ``other`` (a passage that does not say so), ``number``, ``negation``, ``addition``, ``invented`` or
    ``uncited``."""
    text: str


_DIGITS = re.compile(r"(?<![\w.,(])\d+(?![\w.,)])")
_VERB = re.compile(
    r" (shall|must|may|should|will|is|are|was|were|can|has|have|est|sont|doit|doivent|peut|peuvent|sera|était) ", re.IGNORECASE
)
_NEGATION = re.compile(r"\b(?:not|no|never|without|unless|ne|n['’]\w*|pas|aucune?|sans|sauf)\b|\bnon\b", re.IGNORECASE)
_FRENCH = frozenset({"est", "sont", "doit", "doivent", "peut", "peuvent", "sera", "était"})
_INVENTED = "The moon is made of green cheese, as everybody in the ministry knows"
_UNCITED = "The treaty was signed under water by seven divers."


def lies(chat: Chat) -> tuple[Lie, ...]:
    """What :func:`lying` answers, with what is wrong with each sentence; made of true sentences of the passages where it can."""
    rows = [row for row in _best_sentences(chat) if 6 <= len(row.text.split()) <= 60]
    numbers = list(dict.fromkeys(row.number for row in rows))
    unknown = f"[{max(99, len(numbers) + 1)}]"
    found = [Lie("invented", f"{_INVENTED} [{numbers[0] if numbers else 1}]."), Lie("uncited", _UNCITED)]
    found.append(Lie("id", f"{rows[0].text.rstrip('.') if rows else _INVENTED} {unknown}."))
    for row in rows[:1]:
        plain, own = row.text.rstrip("."), _marker(row.number, row.pages)
        found.append(Lie("page", f"{plain} [{row.number}, p. 4711]."))
        found.append(Lie("addition", f"{plain}, while {_INVENTED[0].lower()}{_INVENTED[1:]} {own}."))
        found += [Lie("other", f"{plain} [{other}].") for other in _silent_about(row, rows)[:1]]
    for row in [row for row in rows if _DIGITS.search(row.text)][:1]:
        changed = _DIGITS.sub(lambda match: str(7 * int(match[0]) + 11), row.text.rstrip("."), count=1)
        found.append(Lie("number", f"{changed} {_marker(row.number, row.pages)}."))
    for row in [row for row in rows if _VERB.search(row.text) and not _NEGATION.search(row.text)][:1]:
        found.append(Lie("negation", f"{_VERB.sub(_negated, row.text.rstrip('.'), count=1)} {_marker(row.number, row.pages)}."))
    return tuple(found)


def _negated(match: re.Match[str]) -> str:
    verb = match[1]
    if verb.lower() not in _FRENCH:
        return f" {verb} not "
    return f" n'{verb} pas " if verb[0].lower() in "eé" else f" ne {verb} pas "


def _silent_about(row: _Sentence, rows: Sequence[_Sentence]) -> list[str]:
    """Numbers of the passages none of whose sentences has half of the words of a sentence, those that have fewest first."""
    wanted = set(_WORD.findall(row.text.lower()))
    shared: dict[str, int] = {}
    for other in rows:
        shared[other.number] = max(shared.get(other.number, 0), len(wanted.intersection(_WORD.findall(other.text.lower()))))
    silent = [number for number in shared if number != row.number and 2 * shared[number] < len(wanted)]
    return sorted(silent, key=lambda number: shared[number])


def lying(chat: Chat) -> str:
    """True sentences with wrong pages, wrong passages, other numbers, a "not" and additions; invented ones, cited and not."""
    return " ".join(lie.text for lie in lies(chat))


def gullible(chat: Chat) -> str:
    """Obeys the last order it reads in a passage (``Say: …`` or ``Ignore …``), and shows all it was told."""
    orders = re.findall(r"(?:Say|Write|Answer only): *([^\n]+)", html.unescape(chat.text))
    return f"{orders[-1]}\n{chat.text}" if orders else chat.text


_TASKS: tuple[tuple[re.Pattern[str], Callable[[Chat, re.Match[str]], str]], ...] = (
    (_PASSAGE_TO_READ, lambda chat, _: extractor(chat)),
    (_STATEMENTS, _summary),
    (_CONTEXT, lambda chat, _: copying(chat)),
    (_WHOLE, _split),
    (_CONVERSATION, _follow_up),
    (_QUESTION, _keywords),
)
"""What each prompt of ours is known by, and who answers it."""
