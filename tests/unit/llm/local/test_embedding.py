from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.llm.local import LocalEmbeddingService
from easy_knowledge_retriever.llm.local import embedding as module
from easy_knowledge_retriever.llm.local.encoder import Encoder, load
from easy_knowledge_retriever.llm.local.models import LOCAL_MODELS
from easy_knowledge_retriever.types import FloatVectors
from tests.unit.llm.local.tiny import POSITIONS, WIDTH

TEXTS = (
    "Marie Curie won the Nobel Prize in Physics in 1903 and the Nobel Prize in Chemistry in 1911.",
    "The river Rhine rises in the Swiss Alps and flows into the North Sea.",
    "Sourdough bread is leavened by wild yeast.",
    "",
    "x",
    "Marie Curie won the Nobel Prize in Physics in 1903 and the Nobel Prize in Chemistry in 1911.",
)


async def embedded(service: LocalEmbeddingService, *texts: str) -> FloatVectors:
    return await service.embed(texts, "document")


async def test_a_question_is_nearest_to_its_answer() -> None:
    service = LocalEmbeddingService()
    passages = await embedded(service, *TEXTS[:3])
    questions = await service.embed(
        ["Who was awarded two Nobel prizes?", "Where does the Rhine begin?", "What makes bread rise?"], "query"
    )
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]


async def test_rows_are_unit_vectors_of_the_promised_size() -> None:
    service = LocalEmbeddingService()
    rows = await embedded(service, *TEXTS)
    assert rows.shape == (len(TEXTS), service.embedding_dim) == (6, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert (await embedded(service)).shape == (0, 384)


async def test_a_vector_depends_on_its_text_alone() -> None:
    service = LocalEmbeddingService(threads=2)
    together = await embedded(service, *TEXTS)
    backwards = await embedded(service, *reversed(TEXTS))
    alone = [(await embedded(LocalEmbeddingService(threads=1), text))[0] for text in TEXTS]
    assert together.tobytes() == backwards[::-1].tobytes() == np.stack(alone).tobytes()
    assert together[0].tobytes() == together[-1].tobytes()


async def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import asyncio, sys; from easy_knowledge_retriever.llm.local import LocalEmbeddingService;"
        f"rows = asyncio.run(LocalEmbeddingService().embed([{TEXTS[1]!r}], 'document'));"
        "sys.stdout.write(rows.tobytes().hex())"
    )
    other = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert other.stdout == (await embedded(LocalEmbeddingService(), TEXTS[1])).tobytes().hex()


async def test_a_long_text_is_read_to_its_end(model_folder: Path) -> None:
    service = LocalEmbeddingService(str(model_folder))
    encoder = load(service._model, model_folder)
    text = "red " * 20 + "fish " * 20
    windows = encoder.windows(text, "")
    # 40 words, 14 a window beside the two special tokens, in windows as equal as they can be.
    assert [len(window) for window in windows] == [16, 15, 15]
    assert all((window[0], window[-1]) == (2, 3) for window in windows)
    mean = np.mean([encoder.vector(window) for window in windows], axis=0)
    (row,) = await embedded(service, text)
    assert row == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


async def test_prefixes_tell_questions_from_documents_and_stand_before_every_window(model_folder: Path) -> None:
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    (model_folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")
    service = LocalEmbeddingService(str(model_folder))
    question = await service.embed(["red fish"], "query")
    document = await service.embed(["red fish"], "document")
    assert float(question[0] @ document[0]) < 0.9999
    encoder = load(service._model, model_folder)
    windows = encoder.windows("red " * 24, "passage: ")
    assert [window.tolist() for window in windows] == [[2, 5, 6, *[7] * 12, 3]] * 2
    assert encoder.windows("red", "query: ")[0].tolist() == [2, 4, 6, 7, 3]


async def test_any_string_has_a_vector() -> None:
    rows = await embedded(LocalEmbeddingService(), "", " \n", "\ud800", "\x00", "漢" * 3000, "<|endoftext|> [CLS] [SEP]")
    assert np.isfinite(rows).all()


async def test_cancelling_stops_and_leaves_the_service_usable() -> None:
    service = LocalEmbeddingService(threads=1)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(embedded(service, *TEXTS * 50))
        await asyncio.sleep(0.05)
        task.cancel()
    assert task.cancelled()
    assert (await embedded(service, "again")).shape == (1, 384)


async def test_the_loop_turns_while_texts_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    vector = Encoder.vector

    def recorded(encoder: Encoder, window: np.ndarray) -> np.ndarray:
        threads.add(threading.current_thread().name)
        return vector(encoder, window)

    monkeypatch.setattr(Encoder, "vector", recorded)
    await embedded(LocalEmbeddingService(threads=2), *TEXTS)
    assert threads
    assert all(name.startswith("ekr-embedding") for name in threads)


async def test_closing_twice_is_closing_and_a_closed_service_says_so() -> None:
    service = LocalEmbeddingService()
    await embedded(service, "x")
    await service.aclose()
    await service.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await embedded(service, "x")


async def test_services_share_the_loaded_model() -> None:
    first, second = LocalEmbeddingService(threads=1), LocalEmbeddingService(threads=2)
    await embedded(first, "x")
    await embedded(second, "x")
    assert first._encoder is second._encoder is not None


def test_building_a_service_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"read {path}"))
    service = LocalEmbeddingService()
    assert service.fingerprint.startswith("local/all-MiniLM-L6-v2/384/")
    assert LocalEmbeddingService("multilingual-e5-small").embedding_dim == 384


def test_models_have_fingerprints_of_their_own(model_folder: Path) -> None:
    before = LocalEmbeddingService(str(model_folder)).fingerprint
    (model_folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    after = LocalEmbeddingService(str(model_folder)).fingerprint
    assert len({before, after, *(model.fingerprint for model in LOCAL_MODELS.values())}) == 2 + len(LOCAL_MODELS)


def test_the_number_of_threads_is_checked() -> None:
    with pytest.raises(ConfigError, match="threads"):
        LocalEmbeddingService(threads=0)


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="all-MiniLM-L6-v2"):
        LocalEmbeddingService("all-MiniLM")


async def test_without_the_runtime_the_error_tells_of_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "easy_knowledge_retriever.llm.local.encoder")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match="OpenAIEmbeddingService"):
        await module.LocalEmbeddingService().embed(["x"], "query")


async def test_a_folder_serves_its_dimension(model_folder: Path) -> None:
    service = LocalEmbeddingService(str(model_folder))
    assert (await embedded(service, "red fish")).shape == (1, service.embedding_dim) == (1, WIDTH)
    assert service._model.max_tokens == POSITIONS
