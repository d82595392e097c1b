"""Which failpoints each change of a base passes, in the order they are passed first."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["BY_THE_STORE", "COMMITTED", "POINTS", "STEPS"]

_INGEST = (
    "source-hashed",
    "accepted-before-record",
    "record-written",
    "parse-start",
    "parsed",
    "parse-durable",
    "chunked",
    "embed-batch",
    "embed-done",
    "extract-before-call",
    "extraction-paid",
    "extraction-durable",
    "extracted",
    "merge-start",
    "entity-embed",
    "planned",
    "tx-begin",
    "tx-after-chunks",
    "tx-after-vectors",
    "tx-after-postings",
    "tx-after-graph",
    "tx-before-status",
    "collect-start",
    "collect-half",
    "tx-before-commit",
    "tx-after-commit",
    "summary-call",
    "summary-durable",
    "event-published",
)
_DELETE = (
    "entity-embed",
    "delete-begin",
    "tx-after-graph",
    "collect-start",
    "collect-half",
    "delete-before-commit",
    "delete-after-commit",
)
_REINDEX = ("reindex-batch", "new-index-built", "pointer-swapped", "old-dropped")
STEPS: Mapping[str, str] = MappingProxyType(
    {
        "ingest": "ingest:brandt:brandt",
        "replace": "ingest:verdel:verdel, again",
        "delete": "delete:verdel",
        "reindex": "reindex:24",
    }
)
"""The steps that are killed, on a base that holds ``verdel`` and ``kell``."""
POINTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"ingest": _INGEST, "replace": _INGEST, "delete": _DELETE, "reindex": _REINDEX}
)
"""Of each step, whatever the store."""
COMMITTED = frozenset(
    {
        "tx-after-commit",
        "summary-call",
        "summary-durable",
        "event-published",
        "delete-after-commit",
        "pointer-swapped",
        "old-dropped",
    }
)
"""Where the new state is there already."""
BY_THE_STORE: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": {"open": ("file-draft", "before-dir-fsync"), "replace": ("index-swap",), "delete": ("index-swap",)},
        "files": {step: ("journal-appended",) for step in STEPS},
    }
)
"""Further ones by store and step; ``open`` creates a base. What the state is there depends on the store."""
