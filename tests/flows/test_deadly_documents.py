"""A document that ends the process that reads it: given up after the second time, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import IngestionError, ParseError
from easy_knowledge_retriever.ingestion import origins, pipeline
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.types import DocStatus
from tests.flows.ingesting_base import TEXTS, document, empty_base, ingestion


class Died(BaseException):
    """Stands for the end of a process: nothing is recorded any more."""


async def test_a_document_that_ends_its_process_is_tried_twice(tmp_path: Path) -> None:
    kb = await empty_base()
    flow = ingestion(kb)
    deadly = tmp_path / "deadly.txt"
    deadly.write_text("Mount Kell is a mountain.", "utf-8")
    tries = 0

    def die(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise Died

    async def statuses() -> list[DocStatus]:
        return [record.status for record in await kb.status.page()]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(origins, "failpoint", die)
        for _ in range(2):
            with pytest.raises(Died):
                await flow.ingest_file(deadly)
            assert await statuses() == [DocStatus.PROCESSING]
            await recover(kb)
            assert await statuses() == [DocStatus.INTERRUPTED]
        with pytest.raises(IngestionError, match="parser_crashed") as refused:
            await flow.ingest_file(deadly)
        assert isinstance(refused.value.__cause__, ParseError)
        assert refused.value.__cause__.reason == "parser_crashed"
        assert await statuses() == [DocStatus.FAILED]
        assert tries == 2
    await flow.ingest_file(deadly)
    assert await statuses() == [DocStatus.PROCESSED]


async def test_a_document_whose_ingest_is_often_cut_off_later_is_not_given_up() -> None:
    kb = await empty_base()
    flow = ingestion(kb)

    def die(name: str) -> None:
        if name == "extracted":
            raise Died

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "failpoint", die)
        for _ in range(5):
            with pytest.raises(Died):
                await flow.ingest_document(document("kell", TEXTS["kell"]))
            await recover(kb)
    await flow.ingest_document(document("kell", TEXTS["kell"]))
    [record] = await kb.status.page()
    assert (record.status, record.attempts) == (DocStatus.PROCESSED, 0)
