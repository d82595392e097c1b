"""The command in this process, with a fake embedding model."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import CliRunner

from easy_knowledge_retriever.cli import verbs
from easy_knowledge_retriever.cli.app import app
from easy_knowledge_retriever.cli.demo import demo_documents
from easy_knowledge_retriever.cli.services import ModelOptions
from easy_knowledge_retriever.events import Observer
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever
from easy_knowledge_retriever.storages import DEFAULT_BACKEND, storage_set
from easy_knowledge_retriever.testing.fakes import FakeEmbeddingService


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document it wrote."""
        return json.loads(self.out)


Ekr = Callable[..., Ended]


def faked(
    working_dir: str,
    models: ModelOptions,
    observer: Observer,
    embedding_check: Literal["error", "warn"],
    backend: str = DEFAULT_BACKEND,
    allow_network_fs: bool = False,
) -> EasyKnowledgeRetriever:
    """A retriever that embeds with a fake."""
    return EasyKnowledgeRetriever(
        working_dir=working_dir,
        **storage_set(backend),
        embedding_service=FakeEmbeddingService(models.embedding_dim or 256),
        observer=observer,
        embedding_check=embedding_check,
        allow_network_fs=allow_network_fs,
    )


@pytest.fixture
def ekr_with_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ekr]:
    """The command with the models its flags name."""
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("easy_knowledge_retriever")
    before, level = logger.handlers[:], logger.level

    def run(*arguments: str, stdin: str | None = None) -> Ended:
        result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
        return Ended(result.exit_code, result.stdout, result.stderr)

    yield run
    logger.handlers[:], logger.level = before, level


@pytest.fixture
def ekr(ekr_with_models: Ekr, monkeypatch: pytest.MonkeyPatch) -> Ekr:
    """The command with a fake embedding model."""
    monkeypatch.setattr(verbs, "retriever", faked)
    return ekr_with_models


@pytest.fixture
def ingested(ekr: Ekr) -> Ekr:
    """The command over a knowledge base of the demonstration documents."""
    ended = ekr("ingest", *map(str, demo_documents()))
    assert ended.code == 0, ended.err
    return ekr
