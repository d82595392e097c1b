"""Markdown: the text as it is, with the spans of its headings, lists, tables, code and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from easy_knowledge_retriever.parsing.base import DocumentParser, Parsed, Source
from easy_knowledge_retriever.text.cleaning import decode
from easy_knowledge_retriever.text.markup import plain_heading
from easy_knowledge_retriever.types import Block, BlockKind, Link

__all__ = ["MarkdownParser", "parse_markdown"]

_HEADING: Final = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]+\S|[ \t]*$)")
_UNDERLINE: Final = re.compile(r"[ ]{0,3}(=+|-{2,})[ \t]*$")
_FENCE: Final = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_ROW_BORDER: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_RULE: Final = re.compile(r"[ ]{0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_IMAGE: Final = re.compile(r"[ \t]*!\[[^\[\]\n]*\]\([^()\n]*\)[ \t]*$")
_FRONT_TITLE: Final = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.MULTILINE)


class MarkdownParser(DocumentParser):
    """CommonMark's headings, lists, fenced code and links, with tables and front matter as most editors write them.

    The text is kept as it stands in the file, marks included, so every span is exact. A title is what the front matter says, or a
    heading that comes first or is the only one of the first level.
    """

    name = "markdown"
    version = "1"
    suffixes = (".md", ".markdown")

    def parsed(self, source: Source) -> Parsed:
        decoded = decode(source.content, source.name)
        parsed = parse_markdown(decoded.text)
        return Parsed(parsed.text, parsed.blocks, parsed.title, links=parsed.links, warnings=decoded.warnings)


def parse_markdown(text: str) -> Parsed:
    """Blocks, title and links of clean Markdown text."""
    lines = _lines(text)
    front = _front_matter(lines)
    blocks = [Block("code", lines[0].start, lines[front - 1].end)] if front else []
    blocks += _blocks(lines[front:])
    declared = _FRONT_TITLE.search(text, 0, blocks[0].end) if front else None
    title = declared.group(1).strip("\"'") if declared else _title(text, blocks[1:] if front else blocks)
    return Parsed(text, blocks, title, links=_links(text, blocks))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line without its end."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def blank(self) -> bool:
        return not self.text.strip()


def _lines(text: str) -> list[_Line]:
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append(_Line(line, start))
        start += len(line) + 1
    return lines


def _front_matter(lines: list[_Line]) -> int:
    """Number of lines of the YAML block a file begins with."""
    if lines[0].text.rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:200], start=2):
        if line.text.rstrip() in {"---", "..."}:
            return number
        if line.blank or line.text.startswith("#"):
            return 0
    return 0


def _blocks(lines: list[_Line]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.blank or _RULE.match(line.text):
            at += 1
            continue
        kind, level, stop = _block_at(lines, at)
        last = stop
        while last > at + 1 and lines[last - 1].blank:
            last -= 1
        start = line.start + len(line.text) - len(line.text.lstrip())
        yield Block(kind, start, lines[last - 1].start + len(lines[last - 1].text.rstrip()), level=level)
        at = stop


def _block_at(lines: list[_Line], at: int) -> tuple[BlockKind, int | None, int]:
    """Kind and level of the block that opens at a line, and the line after it."""
    text = lines[at].text
    if heading := _HEADING.match(text):
        return "heading", len(heading.group(1)), at + 1
    if fence := _FENCE.match(text):
        return "code", None, _fence_end(lines, at, fence.group(1))
    if text.strip() == "$$":
        return "equation", None, _closing(lines, at, "$$")
    if underline := _underline_of(lines, at):
        return "heading", 1 if underline == "=" else 2, at + 2
    return _run_of_lines(lines, at)


def _run_of_lines(lines: list[_Line], at: int) -> tuple[BlockKind, None, int]:
    text = lines[at].text
    if _opens_table(lines, at):
        return "table", None, _while(lines, at, lambda place: "|" in lines[place].text)
    if _ITEM.match(text):
        return "list", None, _list_end(lines, at)
    stop = _while(lines, at, lambda place: not _interrupts(lines[place].text) and not _underline_of(lines, place))
    return ("image" if stop == at + 1 and _IMAGE.match(text) else "text"), None, stop


def _underline_of(lines: list[_Line], at: int) -> str:
    """The character a line is underlined with, which makes it a heading; empty if it is not."""
    underline = _UNDERLINE.match(lines[at + 1].text) if at + 1 < len(lines) else None
    if underline is None or _ITEM.match(lines[at].text) or lines[at].text.lstrip().startswith((">", "|")):
        return ""
    return underline.group(1)[0]


def _interrupts(text: str) -> bool:
    return bool(_HEADING.match(text) or _FENCE.match(text) or _ITEM.match(text) or _RULE.match(text))


def _opens_table(lines: list[_Line], at: int) -> bool:
    return (
        "|" in lines[at].text
        and at + 1 < len(lines)
        and "|" in lines[at + 1].text
        and _ROW_BORDER.match(lines[at + 1].text) is not None
    )


def _while(lines: list[_Line], at: int, belongs: Callable[[int], bool]) -> int:
    stop = at + 1
    while stop < len(lines) and not lines[stop].blank and belongs(stop):
        stop += 1
    return stop


def _fence_end(lines: list[_Line], at: int, fence: str) -> int:
    for stop in range(at + 1, len(lines)):
        text = lines[stop].text.strip()
        if len(text) >= len(fence) and set(text) == {fence[0]}:
            return stop + 1
    return len(lines)


def _closing(lines: list[_Line], at: int, mark: str) -> int:
    return next((stop + 1 for stop in range(at + 1, len(lines)) if lines[stop].text.strip() == mark), at + 1)


def _list_end(lines: list[_Line], at: int) -> int:
    """A list goes on over blank lines to the next item or indented line, and over lines that wrap."""
    stop = at + 1
    while stop < len(lines):
        text = lines[stop].text
        after_blank = lines[stop - 1].blank
        indented = text.startswith((" ", "\t"))
        if not lines[stop].blank and not _ITEM.match(text) and not indented and (after_blank or _interrupts(text)):
            break
        stop += 1
    return stop


def _title(text: str, blocks: list[Block]) -> str:
    headings = [block for block in blocks if block.kind == "heading"]
    first_level = [block for block in headings if block.level == 1]
    if headings and headings[0] is blocks[0]:
        return plain_heading(text[headings[0].start : headings[0].end])
    return plain_heading(text[first_level[0].start : first_level[0].end]) if len(first_level) == 1 else ""


_CODE_SPAN: Final = re.compile(r"(?<!`)(`{1,3})(?!`)[^`\n]*(?<!`)\1(?!`)")
_TARGET: Final = r"[^\s<>()]{1,2000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,5}"
_INLINE: Final = re.compile(
    rf"""(?<![!\\])\[(?P<text>[^\[\]\n]{{1,500}})\]\([ \t]*<?(?P<target>{_TARGET})>?"""
    r"""(?:[ \t]+(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'))?[ \t]*\)"""
)
_REFERENCE: Final = re.compile(r"(?<![!\\\]])\[(?P<text>[^\[\]\n]{1,500})\](?:\[(?P<label>[^\[\]\n]{0,500})\])?(?![(:\[])")
_DEFINITION: Final = re.compile(r"^[ ]{0,3}\[(?P<label>[^\[\]\n]{1,500})\]:[ \t]*<?(?P<target>[^\s<>]{1,2000})>?", re.MULTILINE)
_AUTOLINK: Final = re.compile(r"<(?P<target>(?:https?://|mailto:)[^\s<>]{1,2000})>")
_WIKI: Final = re.compile(r"(?<![!\\])\[\[(?P<target>[^\[\]|\n]{1,500})(?:\|(?P<text>[^\[\]\n]{1,500}))?\]\]")


def _links(text: str, blocks: list[Block]) -> list[Link]:
    """Links in order; none from code."""
    readable = _without_code(text, blocks)
    found = [Link(m.start("text"), m.end("text"), m.group("target")) for m in _INLINE.finditer(readable)]
    found += [Link(m.start("target"), m.end("target"), m.group("target")) for m in _AUTOLINK.finditer(readable)]
    for match in _WIKI.finditer(readable):
        shown = "text" if match.group("text") else "target"
        found.append(Link(match.start(shown), match.end(shown), match.group("target").strip()))
    found += _reference_links(readable)
    return sorted(found, key=lambda link: link.start)


def _reference_links(text: str) -> Iterator[Link]:
    targets = {_label(m.group("label")): m.group("target") for m in _DEFINITION.finditer(text)}
    if not targets:
        return
    for match in _REFERENCE.finditer(text):
        target = targets.get(_label(match.group("label") or match.group("text")))
        if target:
            yield Link(match.start("text"), match.end("text"), target)


def _label(text: str) -> str:
    return " ".join(text.casefold().split())


def _without_code(text: str, blocks: list[Block]) -> str:
    """The text with blanks in the place of code, so that every offset stays."""
    pieces, at = [], 0
    for block in blocks:
        if block.kind == "code":
            pieces += [text[at : block.start], " " * (block.end - block.start)]
            at = block.end
    pieces.append(text[at:])
    return _CODE_SPAN.sub(lambda match: " " * len(match.group()), "".join(pieces))
