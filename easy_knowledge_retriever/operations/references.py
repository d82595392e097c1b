"""Declared edges: what a document says of itself and of others by titles, headings, links, cross-references and definitions.

They are exact and cost nothing. An edge between two documents is a *name* that both use: a passage is about its title and
its headings, another one names them. So what a chunk yields depends on the chunk and its own document only, a later document
reaches earlier ones, and the order of ingest changes nothing.
"""

from __future__ import annotations

import functools
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from easy_knowledge_retriever.operations.base import ExtractionOutcome, Extractor, Progress
from easy_knowledge_retriever.operations.names import without_article, without_qualifier
from easy_knowledge_retriever.operations.reading import read_chunks
from easy_knowledge_retriever.text.folding import entity_key, fold
from easy_knowledge_retriever.text.reference_rules import RULES
from easy_knowledge_retriever.types import Chunk, Document, EntityMention, Extraction, RelationMention

__all__ = ["DeclaredReferences", "Found", "cross_references", "defined_terms", "is_numbered", "own_names", "subject"]


class Found(NamedTuple):
    """Something a text declares, with its span in that text."""

    name: str
    start: int
    end: int
    description: str = ""


def _any_of(words: Iterable[str]) -> str:
    """A pattern for one of the words, the longest that fits; a blank in them is any blank."""
    return "(?:" + "|".join(r"\s".join(map(re.escape, word.split())) for word in sorted(words, key=len, reverse=True)) + ")"


_NUMBER: Final = (
    rf"(?:{_any_of(RULES.ordinals)}"
    r"|\(\d{1,3}\)|\d{1,4}(?:\.\d{1,3}){0,4}[a-z]?|[IVXLC]{1,7}|[A-Z](?:\.\d{1,3}){0,3})(?!\w)"
)
_KIND: Final = f"(?i:{_any_of(RULES.kinds)})"
_AND: Final = rf"(?:,\s(?:{_any_of(RULES.joined_by)}\s)?|\s{_any_of(RULES.joined_by)}\s)"
_REFERENCE: Final = re.compile(
    rf"(?<!\w)(?P<kind>{_KIND})\s(?P<number>{_NUMBER})"
    rf"(?P<more>(?:\s?\(\w{{1,5}}\))*(?:{_AND}{_NUMBER}(?:\s?\(\w{{1,5}}\))*)*)(?:\s{_any_of(RULES.up_to)}\s(?P<last>{_NUMBER}))?"
)
_LISTED: Final = re.compile(rf"{_AND}({_NUMBER})")
_EITHER: Final = re.compile(rf"\s{_any_of(RULES.either)}\s({_NUMBER})")
_OF_ANOTHER: Final = re.compile(
    rf"(?:,?\s{_any_of(RULES.inside)}\s[\w(), ]{{1,30}}?)?"
    rf"(?P<act>\s{_any_of(RULES.of)}\s{_any_of(RULES.acts)}\s(?:\({_any_of(RULES.act_bodies)}\)\s)?"
    rf"(?:{_any_of(RULES.number_marks)}\s)?\d{{2,4}}/\d{{1,4}}(?:/\w{{2,4}})?"
    rf"|\s(?:{_any_of(RULES.of)}\s)?{_any_of(RULES.treaties)}(?!\w))"
)
_RANGE_LIMIT: Final = 40
"""Parts a range names at most."""
_SELF_NUMBERED: Final = re.compile(rf"(?P<kind>{_KIND})\s(?P<number>{_NUMBER})")

_TERM: Final = r"[‘“«\"„]\s?(?P<term>[^‘’“”«»\"„\n()]{2,80}?)\s?[’”»\"“]"
_MEANING: Final = re.compile(rf"{_TERM}(?:\s{_any_of(RULES.means)}\b|\s?:\s)")
_SHORT_FORM: Final = re.compile(rf"\((?:[\w-]+,?\s){{0,4}}(?:[ld]['’])?{_TERM}\)")
_GLOSSARY_LINE: Final = re.compile(r"(?m)^(?:[-*•]\s)?(?:\*\*)?(?P<term>[^\W\d_][^:\n*.;,]{1,50})(?:\*\*)?\s?:\s\S[^\n]{20}")
_GLOSSARY: Final = re.compile(_any_of(RULES.glossary_headings))
_DEFINITION_END: Final = re.compile(r"[;\n]|\.\s")
_LONGEST_DEFINITION: Final = 240
_PREAMBLE: Final = re.compile(rf"\b({_any_of(RULES.recitals.values())})\s?:")
_RECITAL_OF: Final = {opening: kind for kind, opening in RULES.recitals.items()}
_ADOPTED: Final = re.compile(rf"\b{_any_of(RULES.adopted)}")
_GAP: Final = 20
"""Recitals whose numbers are hidden in the text before do not end the count; notes lag far behind."""
_RECITAL: Final = re.compile(r"(?m)^\s?\((?P<number>\d{1,3})\)\s+(?P<text>\S[^\n]{10,})")
_COMMA_TAIL: Final = re.compile(r"([^\W\d_][^,(]*\s[^,(]+),\s(?=[A-Z\d])")
_SLUG: Final = re.compile(r"[^\w]+")
_LINKED: Final = (".md", ".markdown", ".html", ".htm", ".rst")
"""Formats that other documents link to by path."""
_MAX_MENTIONS: Final = 60
"""References a chunk gives at most: an index of ten thousand says little about each."""
_MAX_RELATIONS: Final = 12
_LONGEST_NAME: Final = 256
"""Characters; a longer title or target is a text that nobody calls by it."""
_MAX_TERMS: Final = 200
"""Defined terms of a document that are looked for in it."""


@functools.lru_cache(maxsize=1 << 12)
def own_names(heading: str) -> tuple[str, ...]:
    """What a title or heading is called where it is spoken of: itself, then its shorter forms.

    ``New World (1995 film)`` is also called ``New World``, ``The Beatles`` ``Beatles``, ``Article 6 — Classification``
    ``Article 6``, and ``Francis Baring, 3rd Baron Ashburton`` ``Francis Baring``. A heading too long for a name has none.
    """
    if len(heading) > _LONGEST_NAME:
        return ()
    bare = without_qualifier(heading)
    names = [heading, bare, without_article(bare)]
    if numbered := _SELF_NUMBERED.match(heading):
        names.append(_numbered(numbered.group("kind"), numbered.group("number")))
    elif person := _COMMA_TAIL.match(bare):
        names.append(person.group(1))
    by_key: dict[str, str] = {}
    for name in names:
        by_key.setdefault(entity_key(name), name)
    by_key.pop("", None)
    return tuple(by_key.values())


def subject(chunk: Chunk) -> str:
    """The name of what a chunk is about, for its relations: the title of its document, or the numbered part it stands in."""
    for heading in reversed(chunk.headings):
        if numbered := _SELF_NUMBERED.match(heading):
            return _numbered(numbered.group("kind"), numbered.group("number"))
    title = chunk.headings[0] if chunk.headings else ""
    return title if len(title) <= _LONGEST_NAME else ""


def is_numbered(name: str) -> bool:
    """Whether a name is that of a numbered part, such as ``Article 6`` or ``Table``."""
    return name.lower() in RULES.kinds or _SELF_NUMBERED.match(name) is not None


def cross_references(text: str) -> Iterator[Found]:
    """References to numbered parts: ``Article 6(2)``, ``Articles 8 to 15``, ``annexe III``, ``recital (12)``, ``Table 4``.

    A reference into another act keeps the name of the act: ``Article 6 of Directive 2001/95/EC`` is not ours.
    """
    for match in _REFERENCE.finditer(text):
        kind = match.group("kind")
        act = _OF_ANOTHER.match(text, match.end())
        suffix = " ".join(act.group("act").split()) if act else ""
        numbers = [match.group("number")]
        if kind.lower().endswith("s") or match.group("last"):
            numbers += _LISTED.findall(match.group("more"))
        else:
            numbers += _EITHER.findall(match.group("more"))
        numbers += _between(numbers[-1], match.group("last"))
        for number in numbers:
            yield Found(f"{_numbered(kind, number)} {suffix}".rstrip(), match.start(), match.end())


def _numbered(kind: str, number: str) -> str:
    number = RULES.ordinals.get(number, number)
    return f"{RULES.kinds[' '.join(kind.lower().split())]} {number.strip('()')}"


def _between(first: str, last: str | None) -> list[str]:
    """The numbers of a range after its first."""
    if last is None:
        return []
    one, other = first.strip("()"), last.strip("()")
    if one.isdigit() and other.isdigit() and int(one) < int(other) <= int(one) + _RANGE_LIMIT:
        return [str(number) for number in range(int(one) + 1, int(other) + 1)]
    return [last]


def defined_terms(text: str, *, glossary: bool = False) -> Iterator[Found]:
    """Terms a text defines, with the definition: ``‘provider’ means …``, ``(the ‘Board’)``.

    Args:
        text: Where to look.
        glossary: Whether a line ``Term: definition`` defines the term, too.
    """
    for match in _MEANING.finditer(text):
        yield Found(match.group("term").strip(), match.start("term"), match.end("term"), _definition(text, match.start()))
    for match in _SHORT_FORM.finditer(text):
        yield Found(match.group("term").strip(), match.start("term"), match.end("term"))
    for match in _GLOSSARY_LINE.finditer(text) if glossary else ():
        yield Found(match.group("term").strip(), match.start("term"), match.end("term"), _definition(text, match.start("term")))


def _definition(text: str, start: int) -> str:
    end = _DEFINITION_END.search(text, start + 20)
    stop = min(end.start() if end else len(text), start + _LONGEST_DEFINITION)
    return " ".join(text[start:stop].split())


class DeclaredReferences(Extractor):
    """What documents declare: titles, headings, links, cross-references, recitals, defined terms."""

    async def extract(self, document: Document, chunks: Sequence[Chunk], progress: Progress) -> ExtractionOutcome:
        return await read_chunks(_Reader.of, document, chunks, progress)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the chunks of one document."""

    document: Document
    anchors: Mapping[str, str]
    """Slug of a heading → the heading."""
    link_starts: Sequence[int]
    terms: re.Pattern[str] | None
    """Defined terms of more than one word, wherever they stand in the document."""
    recitals: Sequence[Found]
    """With their places in the document."""

    @classmethod
    def of(cls, document: Document) -> _Reader:
        """What the document as a whole declares."""
        headings = [document.text[b.start : b.end].strip("# \n") for b in document.blocks if b.kind == "heading"]
        terms = [term.name for term in defined_terms(document.text) if " " in term.name]
        longest_first = sorted(dict.fromkeys(terms[:_MAX_TERMS]), key=len, reverse=True)
        pattern = re.compile(rf"(?i)(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)") if longest_first else None
        return cls(
            document=document,
            anchors={_slug(heading): heading for heading in reversed(headings)},
            link_starts=[link.start for link in document.links],
            terms=pattern,
            recitals=tuple(_recitals(document.text)),
        )

    def read(self, chunk: Chunk) -> Extraction:
        """What one chunk declares."""
        mentions = [EntityMention(name) for heading in chunk.headings for name in own_names(heading)]
        if chunk.order == 0 and self.document.name.lower().endswith(_LINKED):
            mentions.append(EntityMention(self.document.name, "Document"))
        own = {entity_key(mention.name) for mention in mentions}
        about, relations = subject(chunk), []
        for word, found in self._found(chunk):
            key = entity_key(found.name)
            if not key or len(found.name) > _LONGEST_NAME or (key in own and not found.description):
                continue
            start, end = chunk.start + found.start, chunk.start + found.end
            kind = "Reference" if word == "refers to" else "UNKNOWN"
            mentions.append(EntityMention(found.name, kind, found.description, start, end))
            if about and word and key != entity_key(about) and key not in own:
                relations.append(RelationMention(about, found.name, "", (word,), 1.0, start, end))
        return Extraction(
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            source="declared",
            entities=_first_of_each(mentions)[:_MAX_MENTIONS],
            relations=_first_of_each_pair(relations)[:_MAX_RELATIONS],
        )

    def _found(self, chunk: Chunk) -> Iterator[tuple[str, Found]]:
        """What stands in the text, each with the word that relates it to the subject of the chunk."""
        glossary = any(_GLOSSARY.search(fold(heading)) for heading in chunk.headings)
        yield from (("defines", term) for term in defined_terms(chunk.text, glossary=glossary))
        yield from (("", recital) for recital in self._recitals_in(chunk))
        yield from (("links to", link) for link in self._links(chunk))
        yield from (("refers to", reference) for reference in cross_references(chunk.text))
        if self.terms is not None:
            yield from (("", Found(m.group(), m.start(), m.end())) for m in self.terms.finditer(chunk.text))

    def _recitals_in(self, chunk: Chunk) -> Iterator[Found]:
        at = bisect_left(self.recitals, chunk.start, key=lambda recital: recital.start)
        for recital in self.recitals[at:]:
            if recital.start >= chunk.end:
                return
            yield recital._replace(start=recital.start - chunk.start, end=recital.end - chunk.start)

    def _links(self, chunk: Chunk) -> Iterator[Found]:
        at = bisect_left(self.link_starts, chunk.start)
        for link in self.document.links[at:]:
            if link.start >= chunk.end:
                return
            name = self._target(link.target)
            if name:
                yield Found(name, link.start - chunk.start, link.end - chunk.start)

    def _target(self, target: str) -> str:
        """The name of what a link points at: a document of the same source, or a heading of this one; empty for the web."""
        try:
            parts = urlsplit(target)
        except ValueError:
            return ""
        if parts.scheme or parts.netloc:
            return ""
        if not parts.path:
            return self.anchors.get(_slug(unquote(parts.fragment)), "")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.document.name), unquote(parts.path)))
        return path if path.lower().endswith(_LINKED) and path != self.document.name else ""


def _recitals(text: str) -> Iterator[Found]:
    """The recitals between ``Whereas:`` and ``HAVE ADOPTED``. Numbers that do not go on are those of footnotes."""
    begin = _PREAMBLE.search(text)
    if begin is None:
        return
    end = _ADOPTED.search(text, begin.end())
    last = 0
    for match in _RECITAL.finditer(text, begin.end(), end.start() if end else len(text)):
        number = int(match.group("number"))
        if last < number <= last + _GAP:
            last = number
            kind = _RECITAL_OF[" ".join(begin.group(1).split())]
            yield Found(f"{kind} {number}", match.start("number"), match.end("number"), match.group("text")[:120])


def _slug(heading: str) -> str:
    return _SLUG.sub("-", fold(heading)).strip("-")


def _first_of_each(mentions: Sequence[EntityMention]) -> tuple[EntityMention, ...]:
    """One mention an entity: the first that describes it, or else the first."""
    kept: dict[str, EntityMention] = {}
    for mention in mentions:
        key = entity_key(mention.name)
        if key not in kept or (mention.description and not kept[key].description):
            kept[key] = mention
    return tuple(kept.values())


def _first_of_each_pair(relations: Sequence[RelationMention]) -> tuple[RelationMention, ...]:
    kept: dict[str, RelationMention] = {}
    for relation in relations:
        kept.setdefault(entity_key(relation.target), relation)
    return tuple(kept.values())
