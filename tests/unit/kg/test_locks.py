"""Claims over processes: had by one, free when it dies, and able to say who has it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from easy_knowledge_retriever.aio import task_group
from easy_knowledge_retriever.errors import StorageError, WorkingDirLockedError
from easy_knowledge_retriever.kg import locks
from easy_knowledge_retriever.kg.locks import FILE_NAME, folder_claim, holder_of

PATIENCE = 20
HOLDER = """
import asyncio, sys
from pathlib import Path
from easy_knowledge_retriever.kg.locks import folder_claim

async def hold():
    async with folder_claim(Path(sys.argv[1]), sys.argv[2]):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(hold())
"""


@contextmanager
def holder(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has a claim, until it is told to end or killed."""
    command = [sys.executable, "-c", HOLDER, str(folder), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


async def free(folder: Path, name: str) -> bool:
    async with folder_claim(folder, name, wait=0) as got:
        return got


async def test_another_process_does_not_get_it_and_is_told_who_has_it(tmp_path: Path) -> None:
    with holder(tmp_path, "commit") as process:
        assert not await free(tmp_path, "commit")
        assert await free(tmp_path, "other")
        found = holder_of(tmp_path, "commit")
        assert found is not None
        assert found.process == process.pid
        assert Path(sys.executable).name in found.command
        assert str(found).endswith(found.since)
        process.communicate(b"\n")
        assert await free(tmp_path, "commit")


async def test_it_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    async def wait() -> bool:
        async with folder_claim(tmp_path, "commit") as got:
            return got

    with holder(tmp_path, "commit") as process:
        async with asyncio.timeout(PATIENCE), task_group() as group:
            waiting = group.create_task(wait())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            process.kill()
        assert waiting.result()


async def test_a_holder_that_is_stopped_is_an_error_and_one_that_is_slow_is_not(tmp_path: Path) -> None:
    with holder(tmp_path, "commit") as process:
        async with folder_claim(tmp_path, "commit", wait=1.5, patience=0.01) as got:
            assert not got
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(WorkingDirLockedError, match=rf"process {process.pid} .* since 2.*no sign of life"):
            async with asyncio.timeout(PATIENCE), folder_claim(tmp_path, "commit", patience=1):
                pass
        process.send_signal(signal.SIGCONT)
    assert await free(tmp_path, "commit")


async def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    script = HOLDER.replace(
        'print("held", flush=True)', "import os, time\n        if not os.fork(): time.sleep(30)\n        os._exit(0)"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(tmp_path), "commit"], check=True)
    assert await free(tmp_path, "commit")


async def test_threads_with_loops_of_their_own_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []
    most = [0]

    async def work(number: int) -> None:
        for _ in range(5):
            async with folder_claim(tmp_path, "commit"):
                inside.append(number)
                most[0] = max(most[0], len(inside))
                await asyncio.sleep(0)
                inside.remove(number)

    threads = [threading.Thread(target=asyncio.run, args=(work(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()
    assert most == [1]


async def test_one_claim_that_ends_does_not_let_go_of_another(tmp_path: Path) -> None:
    async with folder_claim(tmp_path, "one"):
        async with folder_claim(tmp_path, "two"):
            pass
        assert holder_of(tmp_path, "one") is not None
        probe = (
            "import asyncio, sys; from pathlib import Path; sys.path.insert(0, '.')\nfrom tests.unit.kg.test_locks import free\n"
        )
        probe += f"print(asyncio.run(free(Path({str(tmp_path)!r}), sys.argv[1])))"
        seen = {}
        for name in ("one", "two"):
            run = await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", probe, name], check=True, capture_output=True, text=True
            )
            seen[name] = run.stdout.strip()
        assert seen == {"one": "False", "two": "True"}


async def test_nothing_is_left_open_and_one_small_file_lies_there(tmp_path: Path) -> None:
    for number in range(100):
        async with folder_claim(tmp_path, f"document/{number}"):
            pass
    assert locks._files == {}
    assert os.listdir(tmp_path) == [FILE_NAME]  # noqa: PTH208 — names only
    assert (tmp_path / FILE_NAME).stat().st_size <= 1 << 20


async def test_a_file_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    async with folder_claim(tmp_path, "one"):
        (tmp_path / FILE_NAME).unlink()
        async with folder_claim(tmp_path, "two"):
            assert (tmp_path / FILE_NAME).is_file()
    assert locks._files == {}


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / FILE_NAME).symlink_to(outside)
    with pytest.raises(StorageError, match="cannot open"):
        async with folder_claim(folder, "commit"):
            pass
    assert outside.read_bytes() == b"mine"
    assert holder_of(folder, "commit") is None


async def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, place: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks, "_lock", refuse)
    with pytest.raises(StorageError, match="cannot be locked"):
        async with folder_claim(tmp_path, "commit"):
            pass
    assert locks._files == {}
