"""What a filter lets see, as conditions of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easy_knowledge_retriever.types import SearchFilter

__all__ = ["Conditions"]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions on the columns ``collection`` and ``document_id`` of a table, and the parameters they stand on."""

    columns: tuple[str, ...]
    values: tuple[Sequence[str], ...]
    first: int
    """Number of the first parameter."""

    @classmethod
    def of(cls, filter: SearchFilter | None, first: int) -> Conditions:
        """The conditions of a filter.

        Args:
            filter: What may be seen; None for all.
            first: Number of the first parameter they may use.
        """
        if filter is None:
            return cls((), (), first)
        given = {"collection": filter.collections, "document_id": filter.document_ids}
        named = {column: sorted(values) for column, values in given.items() if values is not None}
        return cls(tuple(named), tuple(named.values()), first)

    @property
    def after(self) -> int:
        """Number of the first parameter that is free."""
        return self.first + len(self.columns)

    def on(self, table: str) -> str:
        """`` AND …`` for the rows of a table, given by its name in the query."""
        return "".join(f" AND {table}.{name} = ANY(${n}::text[])" for n, name in enumerate(self.columns, self.first))
