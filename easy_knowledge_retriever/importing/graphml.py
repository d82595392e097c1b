"""Reads the nodes and edges of a GraphML file that somebody else wrote: no document types, no entities, bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

from easy_knowledge_retriever.errors import ParseError

__all__ = ["GraphML", "read_graphml"]

_NAMESPACE: Final = "http://graphml.graphdrawing.org/xmlns"
_DEEPEST: Final = 50
_MOST: Final = 5_000_000
"""Nodes and edges."""
Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GraphML:
    """Nodes by id and edges by their ends, each with its attributes as text."""

    nodes: Mapping[str, Attributes]
    edges: tuple[tuple[str, str, Attributes], ...]


def read_graphml(path: Path) -> GraphML:
    """The graph in a file. A document type is refused, so nothing can be expanded or fetched.

    Raises:
        ParseError: ``corrupt``: it is no GraphML, or ``too_large``.
    """
    reader = _Reader(path)
    try:
        with path.open("rb") as file:
            reader.parser.ParseFile(file)
    except expat.ExpatError as failure:
        raise ParseError(f"{str(path)!r} is no readable GraphML: {failure}", code="corrupt") from failure
    except OSError as failure:
        raise ParseError(f"{str(path)!r} cannot be read: {failure}", code="unreadable") from failure
    return GraphML(reader.nodes, tuple(reader.edges))


@dataclass(slots=True)
class _Reader:
    path: Path
    parser: expat.XMLParserType = field(init=False)
    nodes: dict[str, Attributes] = field(default_factory=dict)
    edges: list[tuple[str, str, Attributes]] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _depth: int = 0
    _data: dict[str, str] | None = None
    _key: str | None = None
    _text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse

    def _refuse(self, *_: object) -> None:
        raise ParseError(f"{str(self.path)!r} has a document type, which no exported graph needs", code="corrupt")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST or len(self.nodes) + len(self.edges) > _MOST:
            raise ParseError(f"{str(self.path)!r} is nested too deep or too large", code="too_large")
        name = tag.removeprefix(f"{_NAMESPACE} ")
        if name == "key":
            self._names[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif name == "node":
            self._data = {}
            self.nodes[attributes.get("id", "")] = self._data
        elif name == "edge":
            self._data = {}
            self.edges.append((attributes.get("source", ""), attributes.get("target", ""), self._data))
        elif name == "data" and self._data is not None:
            self._key, self._text = self._names.get(attributes.get("key", ""), ""), []

    def _end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.removeprefix(f"{_NAMESPACE} ")
        if name == "data" and self._data is not None and self._key is not None:
            self._data[self._key] = "".join(self._text)
            self._key = None
        elif name in {"node", "edge"}:
            self._data = None

    def _characters(self, text: str) -> None:
        if self._key is not None:
            self._text.append(text)
