"""The command with models over the wire."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from easy_knowledge_retriever.cli.doctor import _judged, _Warned
from easy_knowledge_retriever.llm.probing import ContextProbe
from tests.cli.conftest import Ekr

KEY = "sk-a-key-that-nobody-may-see"
MODELS = ("--llm-model", "test-model", "--embedding-model", "test-embedding", "--embedding-dim", "1536")


@pytest.fixture
def online(ekr_with_models: Ekr, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Ekr:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("EKR_RERANK_MODEL", "test-reranker")
    monkeypatch.setenv("EKR_RERANK_URL", f"{endpoint}/rerank")
    return ekr_with_models


def test_documents_are_read_and_asked_with_the_models_that_are_named(online: Ekr, tmp_path: Path) -> None:
    (tmp_path / "tram.md").write_text("# Tram\n\nThe ridge tram was repaired on 4 July.\n")
    assert online("ingest", "tram.md", *MODELS).code == 0
    ended = online("query", "When was the ridge tram repaired?", "--mode", "hybrid_mix", *MODELS, "--json", "-v")
    assert ended.code == 0
    assert ended.document["usage"]["llm_calls"] >= 1
    assert ended.document["usage"]["rerank_calls"] == 1
    assert ended.document["degraded"] == []
    assert KEY not in ended.out + ended.err


def test_a_document_that_was_ingested_without_a_model_is_upgraded(online: Ekr, tmp_path: Path) -> None:
    (tmp_path / "tram.md").write_text("# Tram\n\nIda Brandt repaired the ridge tram of Marlow on 4 July.\n")
    embedding = MODELS[2:]
    assert online("ingest", "tram.md", *embedding).code == 0
    assert online("retry", "tram.md", *embedding).code == 6
    ended = online("retry", "tram.md", *MODELS, "--json")
    assert ended.code == 0
    (report,) = ended.document["documents"]
    assert (report["name"], report["unchanged"], report["failed_chunks"]) == ("tram.md", False, [])
    again = online("retry", "tram.md", *MODELS, "--json")
    assert again.document["documents"][0]["unchanged"]
    assert online("retry", "nothing.md", *MODELS).code == 4


def test_doctor_asks_each_model(online: Ekr) -> None:
    ended = online("doctor", *MODELS, "--json")
    assert ended.code == 0, ended.out
    found = {check["name"]: check["found"] for check in ended.document["checks"]}
    assert "1536 dimensions" in found["embedding"]
    assert found["embedding"].endswith("16 texts a request")
    assert found["language model"] == "test-model answers; JSON in words only, does not think aloud, takes max_tokens"
    assert found["context"] == "a prompt of about 5000 tokens is read whole"
    assert found["reranker"] == "test-reranker answers, to requests like those of jina"
    assert found["key"] == "OPENAI_API_KEY is set"
    assert KEY not in ended.out


@pytest.mark.parametrize(
    ("probe", "warned", "said"),
    [
        (ContextProbe(5000, "read"), False, "read whole"),
        (ContextProbe(5000, "refused"), False, "refused"),
        (ContextProbe(5000, "cut", 2048), True, "it counts 2048"),
        (ContextProbe(5000, "late"), True, "EKR_LLM_TIMEOUT"),
        (ContextProbe(5000, "unclear"), True, "could not be seen"),
    ],
)
def test_a_context_that_is_cut_is_warned_of(probe: ContextProbe, warned: bool, said: str) -> None:
    found = _judged(probe)
    assert isinstance(found, _Warned) is warned
    assert said in found


def test_an_endpoint_that_is_down_ends_with_8(ekr_with_models: Ekr, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("EKR_EMBEDDING_TIMEOUT", "1")
    ended = ekr_with_models(
        "doctor", "--embedding-model", "m", "--embedding-dim", "8", "--embedding-url", f"http://127.0.0.1:{port}/v1"
    )
    assert ended.code == 8
    assert "FAIL embedding" in ended.out


def test_a_model_lacks_what_belongs_to_it(ekr_with_models: Ekr, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nText.\n")
    without_length = ekr_with_models("ingest", "a.md", "--embedding-model", "m")
    assert without_length.code == 6
    assert "--embedding-dim" in without_length.err
    without_url = ekr_with_models("ingest", "a.md", "--rerank-model", "m")
    assert without_url.code == 6
    assert "--rerank-url" in without_url.err
