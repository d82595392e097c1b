"""Bytes of what was deleted, out of the files: a database keeps them until it needs the room."""

from __future__ import annotations

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.kg.base import Store
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.kg.vector_storage.live import LIVE

__all__ = ["purge"]


async def purge(kb: KnowledgeBase) -> None:
    """Writes the files of a base anew without what was deleted. Takes as long as copying them.

    What the system keeps of freed blocks, in snapshots of a file system or in backups is not in its reach. Nor is what a
    server keeps: that is up to its own VACUUM or compaction.

    Args:
        kb: An open base that nobody else reads for long.

    Raises:
        StorageError: Vectors are being made anew, which keeps names of entities; or a storage failed, or somebody reads the
            base and does not stop. Bytes may be left: purge again.
    """
    if [key async for key, _ in kb.vector_index.scan() if key != LIVE]:
        raise StorageError(
            "vectors are being made anew beside those that are served, and keep names of what was deleted",
            hint="run 'ekr reindex' to its end and purge again",
        )
    stores: dict[object, Store] = {}
    for storage in kb.storages():
        await storage.flush()
        if storage.store is not None:
            stores.setdefault(storage.store.key, storage.store)
    for store in stores.values():
        await store.scrub()
