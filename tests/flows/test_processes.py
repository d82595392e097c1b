"""Several processes and threads on one folder: one writes at a time, all get on, and a reader sees one state."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import ConfigError, EKRError, WorkingDirLockedError
from easy_knowledge_retriever.ingestion.claiming import claimed_document
from easy_knowledge_retriever.ingestion.recovery import recover
from easy_knowledge_retriever.testing.dump import canonical_dump
from easy_knowledge_retriever.testing.server import CHAT, EMBEDDINGS, OpenAITestServer
from easy_knowledge_retriever.types import DocRecord, DocStatus
from tests.flows.working import offline, page

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120


class Worker:
    """A process that works in a folder, see ``tests.flows.working``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def go(self) -> None:
        """Lets it begin."""
        assert self.process.stdin
        self.process.stdin.write(b"go\n")
        await self.process.stdin.drain()

    async def ready(self) -> None:
        """Waits until it has something to begin with."""
        assert self.process.stdout
        assert await self.process.stdout.readline() == b"ready\n"

    async def result(self) -> object:
        """What it says in the end."""
        out, _ = await self.process.communicate()
        assert self.process.returncode == 0
        return json.loads(out.splitlines()[-1])


@asynccontextmanager
async def worker(action: str, *arguments: object) -> AsyncIterator[Worker]:
    """One that has the base open and waits to begin."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.flows.working", action, *map(str, arguments)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    made = Worker(process)
    try:
        async with asyncio.timeout(PATIENCE):
            await made.ready()
            yield made
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def clean_dump(rag: EasyKnowledgeRetriever) -> str:
    assert (await rag.verify(deep=True)).findings == ()
    return await canonical_dump(rag._kb)


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.long)])
async def test_two_processes_take_in_their_documents(tmp_path: Path, count: int) -> None:
    async with worker("many", tmp_path, "left", count) as one, worker("many", tmp_path, "right", count) as two:
        await one.go()
        await two.go()
        await one.result()
        await two.result()
    async with offline(tmp_path) as rag:
        records = await rag.get_docs()
        assert {record.status for record in records} == {DocStatus.PROCESSED}
        assert {record.name for record in records} == {f"{side}-{n}" for side in ("left", "right") for n in range(count)}
        assert len(records) == 2 * count
        assert (await rag._kb.graph.entities(["ida brandt"]))["ida brandt"].mention_count == 2 * count
        await clean_dump(rag)


async def test_one_document_in_five_tasks_of_two_processes_is_paid_for_once(tmp_path: Path) -> None:
    file = tmp_path / "same.txt"
    file.write_text("Ida Brandt came to Marlow.\n\nJon Lind taught her.", "utf-8")
    async with OpenAITestServer() as server:
        base, alone = tmp_path / "base", tmp_path / "alone"
        async with worker("same", alone, server.base_url, file) as only:
            await only.go()
            await only.result()
        once = {path: server.count(path) for path in (CHAT, EMBEDDINGS)}
        async with (
            worker("same", base, server.base_url, file) as one,
            worker("same", base, server.base_url, file) as two,
        ):
            await one.go()
            await two.go()
            results = [*await one.result(), *await two.result()]  # type: ignore[misc]
        paid = {path: server.count(path) - once[path] for path in (CHAT, EMBEDDINGS)}
    assert len({version for version, _ in results}) == 1
    assert [unchanged for _, unchanged in results].count(False) == 1
    assert paid[CHAT] == once[CHAT] > 0
    assert paid[EMBEDDINGS] <= once[EMBEDDINGS] + 1  # each process asks its model once for what the base is made with


async def test_a_second_writer_waits_and_is_told_who_writes(tmp_path: Path) -> None:
    base, file = tmp_path / "base", tmp_path / "page.txt"
    file.write_text(page(1), "utf-8")
    async with worker("stay", base) as holder:
        other = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-c",
                "from easy_knowledge_retriever.cli import main; main()",
                "ingest",
                str(file),
                "--working-dir",
                str(base),
            ),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await other.communicate()
        assert other.returncode == WorkingDirLockedError.exit_code == 7, told
        message = " ".join(told.decode().split())
        assert f"process {holder.process.pid} " in message
        assert "tests.flows.working stay" in message
        assert "since 2" in message
        await holder.go()
        await holder.result()
    async with offline(base) as rag:
        assert await rag.get_docs() == []


@pytest.mark.parametrize(("queries", "versions"), [(40, 8), pytest.param(1250, 50, marks=pytest.mark.long)])
async def test_readers_of_other_processes_see_one_version(tmp_path: Path, queries: int, versions: int) -> None:
    async with offline(tmp_path) as rag:
        await rag.ainsert(page(0), ids="doc-page", file_paths="page")
        async with (
            worker("read", tmp_path, queries) as one,
            worker("read", tmp_path, queries) as two,
            worker("read", tmp_path, queries) as three,
            worker("read", tmp_path, queries) as four,
        ):
            readers = (one, two, three, four)
            for reader in readers:
                await reader.go()
            async with task_group() as group:
                reading = [group.create_task(reader.result()) for reader in readers]
                for version in range(1, versions):
                    await rag.ainsert(page(version), ids="doc-page", file_paths="page")
                    await asyncio.sleep(0.05)
    for task in reading:
        seen = task.result()
        assert isinstance(seen, list)
        assert all(len(found) == 1 for found in seen), seen


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.long)])
async def test_a_deletion_during_an_ingest_of_another_process_takes_effect_after_it(tmp_path: Path, times: int) -> None:
    choose, seen = random.Random(7), set()
    async with worker("slow", tmp_path, 0.05, times) as ingesting, offline(tmp_path) as rag:
        for left in reversed(range(times)):
            await ingesting.go()
            await asyncio.sleep(choose.uniform(0, 0.2))
            deleted = await rag.adelete_by_doc_id("doc-page")
            if left:
                await ingesting.ready()
            else:
                await ingesting.result()
            there = [record.id for record in await rag.get_docs()]
            assert there == ([] if deleted.status == "success" else ["doc-page"])
            seen.add(deleted.status)
            await clean_dump(rag)
            await rag.adelete_by_doc_id("doc-page")
    assert "success" in seen


async def test_opening_leaves_the_documents_of_others_alone(tmp_path: Path) -> None:
    async with worker("slow", tmp_path, 2) as ingesting:
        await ingesting.go()
        async with offline(tmp_path) as rag:
            async with asyncio.timeout(PATIENCE):
                while not await rag.get_docs_by_status(DocStatus.PROCESSING):  # noqa: ASYNC110 — another process writes
                    await asyncio.sleep(0.01)
            assert await recover(rag._kb) == ()
            ingesting.process.kill()
            await ingesting.process.wait()
            assert [record.id for record in await recover(rag._kb)] == ["doc-page"]
            assert [record.status for record in await rag.get_docs()] == [DocStatus.INTERRUPTED]


@pytest.mark.damages
async def test_what_is_claimed_in_this_process_is_not_interrupted(tmp_path: Path) -> None:
    async with offline(tmp_path) as rag:
        await rag._kb.status.put([DocRecord("a", "a", DocStatus.PROCESSING), DocRecord("b", "b", DocStatus.PROCESSING)])
        async with claimed_document(rag._kb, "a"), offline(tmp_path) as beside:
            assert {record.id: record.status for record in await beside.get_docs()} == {
                "a": DocStatus.PROCESSING,
                "b": DocStatus.INTERRUPTED,
            }


async def test_two_retrievers_of_one_process_share_a_folder(tmp_path: Path) -> None:
    async with offline(tmp_path, 0.01) as one, offline(tmp_path, 0.01) as two:
        async with asyncio.timeout(PATIENCE), task_group() as group:
            for number in range(6):
                rag = one if number % 2 else two
                group.create_task(rag.ainsert(f"Ida Brandt saw Marlow {number} times.", file_paths=f"p{number}"))
            group.create_task(one.ainsert(page(1), ids="doc-page", file_paths="page"))
            group.create_task(two.ainsert(page(1), ids="doc-page", file_paths="page"))
        assert await clean_dump(one) == await clean_dump(two)
        assert len(await one.get_docs()) == 7


async def test_two_retrievers_of_two_folders_never_meet(tmp_path: Path) -> None:
    async with offline(tmp_path / "one") as one, offline(tmp_path / "two") as two:
        await one.ainsert("Ida Brandt saw Marlow.", file_paths="a")
        assert [record.name for record in await two.get_docs()] == []


async def test_one_retriever_of_another_loop_is_refused(tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def use(rag: EasyKnowledgeRetriever) -> None:
        async def ask() -> None:
            await rag.ainsert("Ida Brandt saw Marlow.", file_paths="a")

        try:
            asyncio.run(ask())
        except EKRError as error:
            raised.append(error)

    async with offline(tmp_path) as rag:
        thread = threading.Thread(target=use, args=(rag,))
        thread.start()
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
        assert isinstance(raised[0], ConfigError)
        await rag.ainsert("Ida Brandt saw Marlow.", file_paths="a")


async def test_two_threads_with_retrievers_of_their_own_work_in_one_folder(tmp_path: Path) -> None:
    def work(name: str) -> None:
        async def insert() -> None:
            async with offline(tmp_path) as rag:
                for number in range(3):
                    await rag.ainsert(f"{name} tells how Ida Brandt saw Marlow {number} times.", file_paths=f"{name}{number}")

        asyncio.run(insert())

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()
    async with offline(tmp_path) as rag:
        assert len(await rag.get_docs()) == 6
        await clean_dump(rag)
