"""Document status in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from easy_knowledge_retriever.kg.codecs import decode_record, encode_record
from easy_knowledge_retriever.kg.files import FileStorage
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["JsonDocStatusStorage"]


class JsonDocStatusStorage(FileStorage, DocStatusStorage):
    """Records in memory, all of a namespace in one file ``status_<namespace>.json``."""

    kind = "status"

    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        self._require_open()
        return {key: _own(self._records[key]) for key in ids if key in self._records}

    async def put(self, records: Iterable[DocRecord]) -> None:
        fresh = {record.id: _own(record) for record in records}
        async with self._writing():
            self._records.update(fresh)

    async def delete(self, ids: Sequence[str]) -> None:
        async with self._writing():
            for key in ids:
                self._records.pop(key, None)

    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        return [_own(record) for record in self._ordered() if record.status == status]

    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        return [_own(record) for record in self._ordered()[offset : None if limit is None else offset + limit]]

    def _ordered(self) -> list[DocRecord]:
        self._require_open()
        return sorted(self._records.values(), key=lambda record: (record.name, record.id))

    def _clear(self) -> None:
        self._records: dict[str, DocRecord] = {}

    def _text(self) -> str:
        return json.dumps({"rows": [encode_record(record) for record in self._records.values()]}, separators=(",", ":"))

    def _restore(self, members: Any) -> None:
        self._records = {row["id"]: decode_record(row) for row in members["rows"]}


def _own(record: DocRecord) -> DocRecord:
    return replace(record, metadata=dict(record.metadata))
