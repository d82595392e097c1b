"""A process that takes steps on a base, says of each when it is done, and may be told to die at a failpoint.

A step is ``ingest:NAME:TEXT``, ``delete:NAME``, ``reindex:DIMENSION``, ``summarize`` or, of files, ``checkpoint``.
The texts are :data:`TEXTS`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from easy_knowledge_retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.ingestion import origins
from easy_knowledge_retriever.kg.files.store import FileStore
from easy_knowledge_retriever.llm.base import Message
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService
from easy_knowledge_retriever.testing.replies import Chat, assistant
from easy_knowledge_retriever.text.hashing import document_id
from evaluation.crashing.places import PLACES, Place

__all__ = ["DIMENSION", "TEXTS", "Worker", "play", "retriever", "write_texts"]

TEXTS = {
    "verdel": "The Verdel is a river of Ostrania. It rises near Mount Kell.\n\nIn Marlow, Ida Brandt crossed the Verdel.",
    "kell": "Mount Kell is a mountain of Ostrania. Ida Brandt climbed Mount Kell.\n\nThe Verdel rises near Mount Kell.",
    "brandt": "Ida Brandt was a botanist. She lived in Marlow near the Verdel.\n\nIn Marlow, Ida Brandt wrote The Silent Moor.",
    "verdel, again": "The Verdel is the longest river of Ostrania. It floods Marlow every April.\n\nIda Brandt drew the Verdel.",
    "brandt, again": "Ida Brandt was a botanist and a climber.\n\nJon Lind taught Ida Brandt in Lund.",
    "lind": "Jon Lind came from Lund to Ostrania.\n\nIn Marlow, Jon Lind met Ida Brandt.\n\nJon Lind never saw Mount Kell.",
    "moor": "The Silent Moor is a book of Ida Brandt.",
    "marlow": "Marlow lies at the Verdel in Ostrania.\n\nThe Verdel floods Marlow.\n\nJon Lind left Marlow for Mount Kell.",
}
DIMENSION = 16


class Words:
    """A tokenizer that counts words."""

    def encode(self, content: str) -> list[int]:
        """A number a word."""
        return [len(word) for word in content.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        """So many words."""
        return " ".join("x" * token for token in tokens)


def by_paragraph(_: object, content: str, *__: object) -> list[dict[str, Any]]:
    """A chunking function: a chunk a paragraph."""
    found, at = [], 0
    for paragraph in content.split("\n\n"):
        found.append({"content": paragraph, "start": at, "end": at + len(paragraph), "tokens": len(paragraph.split())})
        at += len(paragraph) + 2
    return found


def write_texts(folder: Path) -> Path:
    """Writes the texts as files that steps ingest; gives the folder."""
    folder.mkdir(exist_ok=True)
    for name, text in TEXTS.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def retriever(place: Place, dimension: int = DIMENSION, model: FakeLLMService | None = None) -> EasyKnowledgeRetriever:
    """A retriever on the base of a place, with models that cost nothing.

    Args:
        place: Where the base is.
        dimension: Of the vectors that the embedding model makes.
        model: Reads and summarises; one that does as it is told if None.
    """
    return EasyKnowledgeRetriever(
        llm_service=model or FakeLLMService(_reply),
        embedding_service=FakeEmbeddingService(dimension),
        chunking_func=by_paragraph,
        tokenizer=Words(),
        entity_extract_max_gleaning=0,
        force_llm_summary_on_merge=2,
        enable_llm_cache_for_entity_extract=False,
        embedding_check="warn",
        **PLACES[place.store].storages(place),
    )


def _reply(messages: Sequence[Message]) -> str:
    return assistant(Chat("fake", tuple({"role": m.role, "content": m.content} for m in messages), {}))


def _silent(step: str) -> None:
    """Nobody asks."""


async def play(
    place: Place, texts: Path, steps: Sequence[str], done: Callable[[str], None] = _silent, dimension: int = DIMENSION
) -> int:
    """Opens the base, takes the steps, and says of each when it is done; gives how often the language model was asked.

    Args:
        place: Where the base is.
        texts: Where the files are that steps ingest.
        steps: The steps.
        done: Is told of each step.
        dimension: Of the vectors of the embedding model, until a step makes them anew with another one.
    """
    model, left = FakeLLMService(_reply), list(steps)
    while left:
        action, _, asked = left[0].partition(":")
        dimension = int(asked) if action == "reindex" else dimension
        async with retriever(place, dimension, model) as rag:
            while left:
                await _take(rag, texts, *left[0].split(":"))
                done(left.pop(0))
                if left and left[0].startswith("reindex:"):
                    break
    return model.calls


async def _take(rag: EasyKnowledgeRetriever, texts: Path, action: str, name: str = "", text: str = "") -> None:
    if action == "ingest":
        await rag.ingest(texts / f"{text}.md", name=name)
    elif action == "delete":
        await rag.adelete_by_doc_id(document_id(name))
    elif action == "reindex":
        await rag.reindex()
    elif action == "checkpoint":
        store = rag._kb.status.store
        assert isinstance(store, FileStore)
        await store.checkpoint()
    else:
        await rag.summarize()


def _work(place: Place, texts: Path, steps: Sequence[str], dimension: int, failpoints: str, says: Connection) -> None:
    os.environ["EKR_FAILPOINTS"] = failpoints
    origins._WORTH_KEEPING = 0.0  # type: ignore[misc]  # every parse is kept, so that a crash may come between
    says.send("ready")
    asyncio.run(play(place, texts, steps, says.send, dimension))


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class Worker:
    """A process that takes steps.

    It is a copy of one in which everything is imported already, so it begins to work at once.

    Args:
        place: Where the base is.
        texts: Where the files are that steps ingest.
        steps: The steps.
        failpoints: What ``EKR_FAILPOINTS`` is there.
        dimension: Of the vectors of its model.
    """

    def __init__(self, place: Place, texts: Path, steps: Sequence[str], failpoints: str = "", dimension: int = DIMENSION) -> None:
        self._hears, says = _context.Pipe(duplex=False)
        given = (place, texts, tuple(steps), dimension, failpoints, says)
        self._process: BaseProcess = _context.Process(target=_work, args=given)
        self._process.start()
        says.close()
        self.acknowledged: list[str] = []

    def wait_until_ready(self) -> None:
        """Returns when it is about to open the base."""
        self._hears.recv()

    def wait_for_a_step(self) -> None:
        """Returns when one step is done."""
        self.acknowledged.append(self._hears.recv())

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()

    def end(self, timeout: float = 60.0) -> int:
        """Waits until it ended and gives its exit code; ``acknowledged`` then holds the steps it said were done."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self.kill()
            self._process.join()
            raise TimeoutError(f"a worker did not end within {timeout} s")
        while True:
            try:
                said = self._hears.recv()
            except EOFError:
                break
            if said != "ready":
                self.acknowledged.append(said)
        self._hears.close()
        self._process.close()
        return code
