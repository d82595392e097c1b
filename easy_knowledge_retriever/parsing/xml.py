"""XML from strangers: no entities of its own, no fetching, no floods."""

from __future__ import annotations

import zipfile
from typing import Any

from easy_knowledge_retriever.errors import ParseError

__all__ = ["member_tree"]


def member_tree(archive: zipfile.ZipFile, member: str, name: str) -> Any:
    """The root element of a member of an archive. Entities that a document type declares are not resolved.

    Args:
        archive: An archive that was looked at, see :func:`parsing.archives.opened`.
        member: Its name in there.
        name: Name of the file, for messages.

    Raises:
        ParseError: ``corrupt``: there is no such member, or it is no XML.
    """
    from lxml import etree  # noqa: PLC0415  # an optional package

    guarded = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(archive.read(member), guarded)
    except (KeyError, zipfile.BadZipFile, EOFError, etree.XMLSyntaxError, ValueError, OSError) as error:
        raise ParseError(
            f"{name!r} is damaged: {member!r} in it cannot be read: {error}", code="corrupt", hint="open it and save it again"
        ) from error
