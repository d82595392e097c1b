"""The Neo4j storage keeps every promise, with the official driver over Bolt, on ArcadeDB."""

from __future__ import annotations

import asyncio
from pathlib import Path

from easy_knowledge_retriever.kg.graph_storage.neo4j_impl import Neo4JStorage
from easy_knowledge_retriever.testing.contracts import GraphStorageContract
from tests.support.bolt import DATABASE, PASSWORD, USER, emptied


class TestNeo4J(GraphStorageContract):
    async def make(self, tmp_path: Path) -> Neo4JStorage:
        return Neo4JStorage(await asyncio.to_thread(emptied, tmp_path), USER, PASSWORD, DATABASE)
