"""Key-value storage in a JSON file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.base import JsonObject
from easy_knowledge_retriever.kg.files import FileStorage
from easy_knowledge_retriever.kg.kv_storage.base import KVStorage

__all__ = ["JsonKVStorage"]


class JsonKVStorage(FileStorage, KVStorage):
    """Values in memory as JSON text, all of a namespace in one file ``kv_<namespace>.json``.

    Every flush after a change writes the whole file: for large bases the SQLite storages are the better choice.
    """

    kind = "kv"

    async def get_many(self, keys: Sequence[str]) -> dict[str, JsonObject]:
        self._require_open()
        return {key: json.loads(self._texts[key]) for key in keys if key in self._texts}

    async def put_many(self, values: Mapping[str, JsonObject]) -> None:
        texts = {key: _text_of(key, value) for key, value in values.items()}
        async with self._writing():
            self._texts.update(texts)

    async def delete_many(self, keys: Sequence[str]) -> None:
        async with self._writing():
            for key in keys:
                self._texts.pop(key, None)

    async def scan(self, prefix: str = "") -> AsyncIterator[tuple[str, JsonObject]]:
        self._require_open()
        found = sorted((key, text) for key, text in self._texts.items() if key.startswith(prefix))
        for key, text in found:
            yield key, json.loads(text)

    def _clear(self) -> None:
        self._texts: dict[str, str] = {}

    def _text(self) -> str:
        return f'{{"rows":{{{",".join(f"{json.dumps(key)}:{text}" for key, text in self._texts.items())}}}}}'

    def _restore(self, members: Any) -> None:
        self._texts = {key: _text_of(key, value) for key, value in members["rows"].items()}


def _text_of(key: str, value: JsonObject) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=dict)
    except (TypeError, ValueError) as failure:
        raise StorageError(f"the value of {key!r} is not JSON: {failure}", hint="nothing was written") from failure
