"""The chunks that follow the best hits: an answer often runs on past the end of the chunk that was found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from easy_knowledge_retriever.types import Chunk

__all__ = ["following_chunks", "with_following"]


async def following_chunks(
    best: Sequence[Chunk], steps: int, load: Callable[[Sequence[str]], Awaitable[Mapping[str, Chunk]]]
) -> list[Chunk]:
    """The next ``steps`` chunks after each of the best in its document, nearest first, without those given.

    Args:
        best: The best hits, best first.
        steps: How far to read on.
        load: Reads chunks by chunk_id; those that may not be seen are absent.
    """
    seen = {chunk.id for chunk in best}
    frontier = list(best)
    found: list[Chunk] = []
    for _ in range(steps):
        wanted = [chunk.next_id for chunk in frontier if chunk.next_id]
        loaded = await load(list(dict.fromkeys(wanted)))
        frontier = [loaded[chunk_id] for chunk_id in wanted if chunk_id in loaded]
        fresh = {chunk.id: chunk for chunk in frontier if chunk.id not in seen}
        found += fresh.values()
        seen |= fresh.keys()
    return found


def with_following(pool: Sequence[str], following: Sequence[str], keep: int) -> list[str]:
    """The first ``keep`` ids of a pool whose last places go to the following chunks, so that none pushes a good hit down.

    Following chunks take at most a quarter of the places; one that the pool ranks high enough stays where it is.
    """
    head = list(pool[:keep])
    fresh = [chunk_id for chunk_id in following if chunk_id not in head]
    places = max(min(len(fresh), keep // 4), keep - len(head))
    return [*head[: keep - min(places, len(fresh))], *fresh[:places]][:keep]
