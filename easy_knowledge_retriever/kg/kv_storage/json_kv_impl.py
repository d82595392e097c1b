"""Key-value storage in JSON files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.files.rows import Rows
from easy_knowledge_retriever.kg.files.storage import FileStorage
from easy_knowledge_retriever.kg.files.table import Json, Key, View
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage, end_of_prefix

__all__ = ["JsonKVStorage"]


class _Texts(Rows[str]):
    """Values as JSON text, so that nothing is shared with whoever gave or takes them."""

    kind = "kv"

    def encode(self, row: str) -> str:
        return row

    def decode(self, key: Key, data: Json) -> str:
        return _text_of(str(key), dict(data))

    def members(self) -> Iterator[str]:
        yield '"rows":{'
        yield from (f"{',' if number else ''}{json.dumps(key)}:{row}" for number, (key, row) in enumerate(self.items()))
        yield "}"

    def restore(self, body: bytes) -> Json:
        members = json.loads(body)
        self.apply({key: self.decode(key, data) for key, data in members.pop("rows").items()})
        return members


class JsonKVStorage(FileStorage[str], KVStorage):
    """Values in memory as JSON text; on disk in the journal of the folder and in ``kv_<namespace>.<number>.json``."""

    rows = _Texts

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        found = await self._read(lambda view: {key: text for key in keys if (text := view.get(key)) is not None})
        return {key: json.loads(text) for key, text in found.items()}

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        texts: dict[Key, str | None] = {key: _text_of(key, value) for key, value in values.items()}
        await self._change(lambda _: texts)

    async def delete_many(self, keys: Sequence[str]) -> None:
        await self._change(lambda view: {key: None for key in keys if view.get(key) is not None})

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        for key, text in await self._read(lambda view: _between(view, prefix)):
            yield key, json.loads(text)


def _between(view: View[str], prefix: str) -> list[tuple[str, str]]:
    table = view.table
    keys = table.between(prefix, end_of_prefix(prefix)) if isinstance(table, _Texts) else []
    found = [key for key in keys if key not in view.changes]
    found += [str(key) for key, _ in view.changed() if str(key).startswith(prefix)]
    return [(key, text) for key in sorted(found) if (text := view.get(key)) is not None]


def _text_of(key: str, value: JsonObject) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=dict)
    except (TypeError, ValueError) as failure:
        raise StorageError(f"the value of {key!r} is not JSON: {failure}", hint="nothing was written") from failure
