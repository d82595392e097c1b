"""Importing the package is cheap, silent and leaves the machine alone."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "torch",
    "onnxruntime",
    "openai",
    "networkx",
    "liteparse",
    "tokenizers",
    "tiktoken",
    "rich",
    "typer",
    "nano_vectordb",
    "rank_bm25",
)
WATCHED = """
import json, os, sys

read, reached = [], []

class Watched(type(os.environ)):
    def __getitem__(self, name):
        read.append(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        read.append(name)
        return super().get(name, default)

sys.addaudithook(lambda event, _: reached.append(event) if event.startswith("socket.") else None)
import numpy
os.environ.__class__ = Watched
reached.clear()
import easy_knowledge_retriever
print(json.dumps({"modules": sorted(sys.modules), "read": read, "reached": reached}))
"""


def _imported() -> dict[str, list[str]]:
    done = subprocess.run([sys.executable, "-W", "error", "-c", WATCHED], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_import_is_light_and_reads_nothing() -> None:
    found = _imported()
    assert [name for name in HEAVY if name in found["modules"]] == []
    assert [name for name in found["read"] if not name.startswith(("PYTHON", "LC_", "LANG"))] == []
    assert found["reached"] == []


def test_the_logger_is_silent_by_default() -> None:
    program = (
        "import logging, easy_knowledge_retriever\n"
        "logging.getLogger('easy_knowledge_retriever').warning('unheard')\n"
        "assert logging.getLogger().handlers == []\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_base_without_a_local_model_loads_no_local_model() -> None:
    code = (
        "import asyncio, sys, tempfile\n"
        "from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam\n"
        "from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService, FakeLLMService\n"
        "async def main():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        models = {'llm_service': FakeLLMService(lambda messages: 'END'), 'embedding_service': FakeEmbeddingService()}\n"
        "        async with EasyKnowledgeRetriever(folder, **models) as rag:\n"
        "            await rag.ainsert('Salt dissolves in water.')\n"
        "            await rag.aquery('What dissolves?', QueryParam(mode='hybrid_mix'))\n"
        "asyncio.run(main())\n"
        "assert not {'onnxruntime', 'tokenizers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
