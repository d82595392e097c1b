"""Document status in JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from easy_knowledge_retriever.kg.codecs import decode_record, encode_record
from easy_knowledge_retriever.kg.files.rows import Rows
from easy_knowledge_retriever.kg.files.storage import FileStorage
from easy_knowledge_retriever.kg.files.table import Json, Key, View
from easy_knowledge_retriever.kg.kv_storage.base import DocStatusStorage
from easy_knowledge_retriever.types import DocRecord, DocStatus

__all__ = ["JsonDocStatusStorage"]


class _Records(Rows[DocRecord]):
    kind = "status"

    def encode(self, row: DocRecord) -> str:
        return json.dumps(encode_record(row), separators=(",", ":"))

    def decode(self, key: Key, data: Json) -> DocRecord:
        return decode_record(data)

    def members(self) -> Iterator[str]:
        yield '"rows":['
        yield from (f"{',' if number else ''}{self.encode(row)}" for number, (_, row) in enumerate(self.items()))
        yield "]"

    def restore(self, body: bytes) -> Json:
        members = json.loads(body)
        self.apply({row["id"]: decode_record(row) for row in members.pop("rows")})
        return members


class JsonDocStatusStorage(FileStorage[DocRecord], DocStatusStorage):
    """Records in memory; on disk in the journal of the folder and in ``status_<namespace>.<number>.json``."""

    rows = _Records

    async def get(self, ids: Sequence[str]) -> dict[str, DocRecord]:
        found = await self._read(lambda view: {key: row for key in ids if (row := view.get(key)) is not None})
        return {key: _own(record) for key, record in found.items()}

    async def put(self, records: Iterable[DocRecord]) -> None:
        fresh: dict[Key, DocRecord | None] = {record.id: _own(record) for record in records}
        await self._change(lambda _: fresh)

    async def delete(self, ids: Sequence[str]) -> None:
        await self._change(lambda view: {key: None for key in ids if view.get(key) is not None})

    async def by_status(self, status: DocStatus) -> list[DocRecord]:
        return [_own(record) for record in await self._read(_ordered) if record.status == status]

    async def page(self, offset: int = 0, limit: int | None = None) -> list[DocRecord]:
        ordered = await self._read(_ordered)
        return [_own(record) for record in ordered[offset : None if limit is None else offset + limit]]


def _ordered(view: View[DocRecord]) -> list[DocRecord]:
    found = (view.get(key) for key in view.keys())
    return sorted((record for record in found if record is not None), key=lambda record: (record.name, record.id))


def _own(record: DocRecord) -> DocRecord:
    return replace(record, metadata=dict(record.metadata))
