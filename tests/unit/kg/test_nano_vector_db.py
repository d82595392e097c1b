"""The guards against what nano-vectordb does to rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.errors import ConfigError, StorageError
from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage
from easy_knowledge_retriever.types import FloatVector, SearchFilter, VectorRecord


def _vector(*values: float) -> FloatVector:
    return np.array(values, dtype=np.float32)


async def _opened(folder: Path, floor: float | None = None) -> NanoVectorDBStorage:
    storage = NanoVectorDBStorage(folder, cosine_better_than_threshold=floor).bind("rows")
    await storage.open()
    return storage


def test_the_root_logger_is_left_alone() -> None:
    program = (
        "import logging; root = logging.getLogger(); before = (list(root.handlers), root.level)\n"
        "from easy_knowledge_retriever.kg.vector_storage.nano_vector_db_impl import NanoVectorDBStorage\n"
        "NanoVectorDBStorage()\n"
        "import sys; assert 'nano_vectordb' in sys.modules\n"
        "assert (root.handlers, root.level) == before, root.handlers"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_package_can_load_the_file(tmp_path: Path) -> None:
    from nano_vectordb import NanoVectorDB  # noqa: PLC0415 — after the adapter, which guards the first import

    storage = await _opened(tmp_path)
    rows = [VectorRecord(f"{n:04}", _vector(1, n + 1), "d", "c") for n in range(2000)]
    await storage.put_many([VectorRecord("a", _vector(3, 4), "d", "c"), VectorRecord("b", _vector(1, 0)), *rows])
    await storage.delete_many(["0000", "1999"])
    await storage.store.checkpoint()
    await storage.close()
    index = NanoVectorDB(2, storage_file=str(tmp_path / "vectors_rows.2.json"))
    assert len(index) == 2000
    assert [row["__id__"] for row in index.query(np.array([1.0, 0.0]), top_k=1)] == ["b"]
    assert [row["__id__"] for row in index.query(np.array([3.0, 4.0]), top_k=1)] == ["a"]
    await storage.open()
    assert [hit.id for hit in await storage.search(_vector(3, 4), 1)] == ["a"]
    await storage.put_many([VectorRecord("c", _vector(-3, -4))])
    await storage.delete_many(["a"])
    assert [hit.id for hit in await storage.search(_vector(-3, -4), 1)] == ["c"]
    assert await storage.count() == 2000
    await storage.close()


async def test_a_file_of_the_package_in_the_current_folder_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano-vectordb.json").write_text('{"embedding_dim": 2, "data": [{"__id__": "x"}], "matrix": "AACAPwAAAAA="}')
    storage = await _opened(tmp_path / "base")
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    assert await storage.ids() == ["a"]
    assert [hit.id for hit in await storage.search(_vector(1, 0), 5)] == ["a"]
    await storage.close()


@pytest.mark.parametrize("query", [_vector(0, 0), _vector(float("nan"), 1), _vector(float("inf"), 1), _vector(1, 0, 0)])
async def test_a_bad_query_is_refused(tmp_path: Path, query: FloatVector) -> None:
    storage = await _opened(tmp_path)
    await storage.put_many([VectorRecord("a", _vector(1, 0))])
    with pytest.raises(StorageError, match="the query"):
        await storage.search(query, 5)
    await storage.close()


async def test_rows_and_matrix_stay_in_step_after_a_refused_batch(tmp_path: Path) -> None:
    storage = await _opened(tmp_path)
    await storage.put_many([VectorRecord(f"{n}", _vector(1, n)) for n in range(6)])
    with pytest.raises(StorageError):
        await storage.put_many([VectorRecord("6", _vector(1, 6)), VectorRecord("7", _vector(1, 2, 3))])
    await storage.put_many([VectorRecord("8", _vector(-1, 0))])
    await storage.close()
    await storage.open()
    assert await storage.count() == 7
    assert [hit.id for hit in await storage.search(_vector(-1, 0), 1)] == ["8"]
    await storage.close()


async def test_a_large_or_small_vector_keeps_its_direction(tmp_path: Path) -> None:
    storage = await _opened(tmp_path)
    await storage.put_many([VectorRecord("large", _vector(3e30, 4e30)), VectorRecord("small", _vector(3e-30, -4e-30))])
    vectors = await storage.vectors(["large", "small"])
    assert vectors["large"] == pytest.approx([0.6, 0.8])
    assert vectors["small"] == pytest.approx([0.6, -0.8])
    await storage.close()


async def test_a_floor_given_to_the_constructor_survives_binding(tmp_path: Path) -> None:
    storage = await _opened(tmp_path, floor=0.5)
    await storage.put_many([VectorRecord("near", _vector(1, 0.1)), VectorRecord("far", _vector(-1, 0))])
    assert [hit.id for hit in await storage.search(_vector(1, 0), 5)] == ["near"]
    await storage.close()
    with pytest.raises(ConfigError):
        NanoVectorDBStorage(tmp_path, cosine_better_than_threshold=1.5)


async def test_a_tie_at_the_cut_is_decided_by_id(tmp_path: Path) -> None:
    storage = await _opened(tmp_path)
    same = np.random.default_rng(0).standard_normal(31).astype(np.float32)
    await storage.put_many([VectorRecord(f"{n:03}", same, f"{n % 2}") for n in reversed(range(200))])
    odd = SearchFilter(document_ids=frozenset({"1"}))
    assert [hit.id for hit in await storage.search(same, 3, odd)] == ["001", "003", "005"]
    await storage.close()


def test_a_workspace_of_the_environment_counts_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANO_VECTOR_DB_WORKSPACE", "mine")
    named = NanoVectorDBStorage(tmp_path, "mine").bind("rows").store.folder
    assert NanoVectorDBStorage(tmp_path).bind("rows", "other").store.folder == named
    assert NanoVectorDBStorage(tmp_path, "yours").bind("rows").store.folder != named
