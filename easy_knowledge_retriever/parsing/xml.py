"""XML from strangers: no entities of its own, no fetching, no floods."""

from __future__ import annotations

import zipfile
from typing import Any

from easy_knowledge_retriever.errors import ParseError

__all__ = ["member_tree", "tree"]


def tree(content: bytes, name: str) -> Any:
    """The root element of a document. Entities that a document type declares are not resolved.

    Args:
        content: The document.
        name: What it is called, for messages.

    Raises:
        ParseError: ``corrupt``: it is no XML.
    """
    from lxml import etree  # noqa: PLC0415  # an optional package

    guarded = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(content, guarded)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ParseError(f"{name!r} is damaged: {error}", code="corrupt", hint="fetch or export it again") from error


def member_tree(archive: zipfile.ZipFile, member: str, name: str) -> Any:
    """The root element of a member of an archive.

    Args:
        archive: An archive that was looked at, see :func:`parsing.archives.opened`.
        member: Its name in there.
        name: Name of the file, for messages.

    Raises:
        ParseError: ``corrupt``: it is no XML.
        KeyError: There is no such member.
    """
    return tree(archive.read(member), name)
