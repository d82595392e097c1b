"""The storage of the how-to page passes the contract suite it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.docs.blocks import blocks, run
from tests.style.source import ROOT

_PAGE = ROOT / "docs" / "how-to" / "own-storage.md"
_shown = [block for block in blocks(_PAGE) if "class " in block.code]

if TYPE_CHECKING:
    from easy_knowledge_retriever.testing.contracts import KVStorageContract as Shown
else:
    Shown: Any = run(_shown)["TestDictKVStorage"]


class TestShownStorage(Shown):
    """Runs the suite."""


def test_the_page_shows_a_storage_and_its_test() -> None:
    assert len(_shown) == 2
