"""Documents that come, change and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from easy_knowledge_retriever.ingestion.pipeline import Ingestion
from easy_knowledge_retriever.ingestion.verification import verify
from easy_knowledge_retriever.kg.knowledge_base import KnowledgeBase
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.dump import canonical_dump
from tests.flows.ingesting_base import document

Step = tuple[str, str, str]
"""``ingest`` or ``delete``, the name of a document, its text."""
TIGHT = Settings(max_source_ids_per_entity=2, max_source_ids_per_relation=2, max_file_paths=1, source_ids_limit_method="KEEP")


async def take(flow: Ingestion, steps: Sequence[Step]) -> None:
    """Takes the steps in order."""
    for step, name, text in steps:
        made = document(name, text, title="")
        if step == "ingest":
            await flow.ingest_document(made)
        else:
            await flow.delete_document(made.id)


def left_after(steps: Sequence[Step], random: Random) -> list[Step]:
    """The steps that bring in the documents that are there in the end, in any order."""
    left: dict[str, Step] = {}
    for step in steps:
        left.pop(step[1], None)
        if step[0] == "ingest":
            left[step[1]] = step
    rest = list(left.values())
    random.shuffle(rest)
    return rest


async def assert_only_what_is_left_matters(
    steps: Sequence[Step],
    settings: Settings,
    random: Random,
    after: Callable[[Sequence[Step], Settings], Awaitable[KnowledgeBase]],
) -> None:
    """The base that took all steps is sound, and the one that saw only the documents that are left."""
    long_way, short_way = await after(steps, settings), await after(left_after(steps, random), settings)
    assert (await verify(long_way, deep=True, settings=settings)).findings == ()
    dumps = [(await canonical_dump(kb)).splitlines() for kb in (long_way, short_way)]
    one, other = ([line for line in dump if '"embedding"' not in line] for dump in dumps)
    assert one == other
