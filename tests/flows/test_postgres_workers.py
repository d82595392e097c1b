"""Several processes ingest into one base in PostgreSQL at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evaluation.benchmarks.postgres import ingest, retriever
from tests.support.postgres import postgres

OWN, SHARED = 12, 4


async def test_two_processes_ingest_into_one_base(tmp_path: Path) -> None:
    options: dict[str, Any] = dict(postgres().options(await postgres().database("workers")))
    shared = list(range(1000, 1000 + SHARED))
    await ingest(options, "w", [[*shared, *range(OWN)], [*shared, *range(OWN, 2 * OWN)]])
    async with retriever(options, "w", str(tmp_path)) as rag:
        names = [record.name for record in await rag.get_docs()]
        assert sorted(names) == sorted(f"letter-{number}.txt" for number in [*range(2 * OWN), *shared])
        assert (await rag.get_processing_status())["processed"] == len(names)
        report = await rag.verify(deep=True)
        assert report.findings == ()
        assert report.chunks == 2 * OWN + SHARED
