"""PostgreSQL ranks as SQLite does, to the last bit of every score."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from easy_knowledge_retriever.kg.lexical_storage.postgres_impl import PGLexicalStorage
from easy_knowledge_retriever.kg.lexical_storage.sqlite_impl import SqliteLexicalStorage
from easy_knowledge_retriever.kg.vector_storage.postgres_impl import PGVectorStorage
from easy_knowledge_retriever.kg.vector_storage.sqlite_impl import SqliteVectorStorage
from easy_knowledge_retriever.types import LexicalRecord, SearchFilter, VectorRecord
from tests.support.postgres import on_postgres


async def test_words(tmp_path: Path) -> None:
    choice = random.Random(5)
    words = [f"w{number}" for number in range(40)]
    records = [
        LexicalRecord(
            f"{number:03}",
            {"text": tuple(choice.choices(words, k=choice.randrange(30))), "heading": tuple(choice.choices(words, k=2))},
            f"d{number % 7}",
        )
        for number in range(150)
    ]
    ours = PGLexicalStorage(**await on_postgres(tmp_path, "ranking")).bind("rows", "w")
    theirs = SqliteLexicalStorage(tmp_path).bind("rows", "w")
    for storage in (ours, theirs):
        await storage.open()
        await storage.put_many(records)
    for number in range(20):
        terms = choice.sample(words, 1 + number % 6)
        weights = {"heading": 1 + choice.random(), "text": 1.0}
        seen = SearchFilter(document_ids=frozenset({"d1", "d2"})) if number % 2 else None
        expected = await theirs.search(terms, 20, seen, k1=1.2, b=0.7, field_weights=weights)
        assert await ours.search(terms, 20, seen, k1=1.2, b=0.7, field_weights=weights) == expected
    for storage in (ours, theirs):
        await storage.close()


async def test_vectors(tmp_path: Path) -> None:
    rows = np.random.default_rng(6).standard_normal((80, 200)).astype(np.float32)
    ours = PGVectorStorage(**await on_postgres(tmp_path, "ranking")).bind("rows", "w")
    theirs = SqliteVectorStorage(tmp_path).bind("rows", "w")
    await ours.open()
    await theirs.open()
    await theirs.put_many([VectorRecord(f"{number:02}", row) for number, row in enumerate(rows)])
    moved = await theirs.vectors(await theirs.ids())
    await ours.put_many([VectorRecord(key, vector) for key, vector in moved.items()])
    for query in rows[:20]:
        assert await ours.search(query, 15) == await theirs.search(query, 15)
    await ours.close()
    await theirs.close()
