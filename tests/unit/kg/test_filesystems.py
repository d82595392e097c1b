"""Folders on network file systems are noticed, and not written to unasked."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.errors import IngestionError, StorageError
from easy_knowledge_retriever.kg import filesystems
from easy_knowledge_retriever.kg.filesystems import network_file_system
from easy_knowledge_retriever.kg.kv_storage.json_kv_impl import JsonKVStorage
from easy_knowledge_retriever.kg.kv_storage.sqlite_impl import SqliteKVStorage
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw,relatime shared:2 - nfs4 server:/srv rw,vers=4.2
31 30 8:2 / /srv/ida/local rw,relatime shared:3 master:1 - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/my\040share rw,relatime - cifs //server/share rw
33 22 0:42 / /mnt/host rw,relatime - 9p host rw,trans=virtio
34 22 8:3 / /mnt/twice rw,relatime - nfs server:/twice rw
35 34 8:4 / /mnt/twice rw,relatime - ext4 /dev/sdc1 rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", ""),
        ("/opt/base", ""),
        ("/srv/ida/base", "nfs4"),
        ("/srv", "nfs4"),
        ("/srvs", ""),
        ("/srv/ida/local/base", ""),
        ("/mnt/my share/base", "cifs"),
        ("/mnt/host", "9p"),
        ("/mnt/twice/base", ""),
    ],
)
def test_the_kind_of_the_innermost_mount_counts(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS, "utf-8")
    assert network_file_system(Path(folder), mounts) == kind


def test_where_the_system_does_not_tell_a_folder_is_local(tmp_path: Path) -> None:
    assert network_file_system(tmp_path, tmp_path / "missing") == ""


@pytest.fixture
def on_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "network_file_system", lambda folder: "nfs4")


@pytest.mark.usefixtures("on_nfs")
@pytest.mark.parametrize("storage", [SqliteKVStorage, JsonKVStorage])
async def test_nothing_is_created_or_written_there_unasked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, storage: type[SqliteKVStorage | JsonKVStorage]
) -> None:
    new = storage(tmp_path / "new").bind("stamps")
    with pytest.raises(StorageError, match=r"network file system \(nfs4\)"):
        await new.open()
        await new.put_many({"a": {"value": 1}})
    assert not (tmp_path / "new").exists()
    await new.close()
    allowed = storage(tmp_path, allow_network_fs=True).bind("stamps")
    await allowed.open()
    await allowed.put_many({"a": {"value": 1}})
    await allowed.close()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        there = storage(tmp_path).bind("stamps")
        await there.open()
    assert "two processes may break what is there" in caplog.text
    assert await there.get_many(["a"]) == {"a": {"value": 1}}
    with pytest.raises(StorageError, match="--allow-network-fs"):
        await there.put_many({"a": {"value": 2}})
    assert await there.get_many(["a"]) == {"a": {"value": 1}}
    await there.close()


@pytest.mark.usefixtures("on_nfs")
async def test_a_retriever_may_be_told_to_write_there(tmp_path: Path) -> None:
    async with EasyKnowledgeRetriever(tmp_path, embedding_service=FakeEmbeddingService(8), allow_network_fs=True) as rag:
        await rag.ainsert("Ida Brandt saw Marlow.", file_paths="a")
    async with EasyKnowledgeRetriever(tmp_path, embedding_service=FakeEmbeddingService(8)) as rag:
        assert [record.name for record in await rag.get_docs()] == ["a"]
        with pytest.raises(IngestionError, match="network file system"):
            await rag.ainsert("Jon Lind saw Lund.", file_paths="b")
