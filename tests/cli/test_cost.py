"""The command where models cost money."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ekr

PRICES = "[test-model]\ninput = 100\noutput = 400\n[test-embedding]\ninput = 10\n"
MODELS = ("--llm-model", "test-model", "--embedding-model", "test-embedding", "--embedding-dim", "1536")
TRAM = "# Tram\n\nThe ridge tram was repaired by Mira Holt on 4 July.\n"
DOME = "# Dome\n\nThe dome of Brenn was closed by Ida Brandt in May.\n"


@pytest.fixture
def online(ekr_with_models: Ekr, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ekr:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("EKR_PRICES", "prices.toml")
    (tmp_path / "prices.toml").write_text(PRICES)
    (tmp_path / "tram.md").write_text(TRAM)
    (tmp_path / "dome.md").write_text(DOME)
    return ekr_with_models


def test_an_ingest_says_what_it_cost(online: Ekr) -> None:
    ended = online("ingest", "tram.md", *MODELS)
    assert ended.code == 0, ended.err
    assert "2 calls, " in ended.out
    assert " tokens embedded, cost 0." in ended.out
    assert " · 2 calls, " in ended.err
    document = online("ingest", "tram.md", "dome.md", *MODELS, "--json").document
    assert document["usage"]["llm_calls"] == 2
    assert document["cost"] == pytest.approx(sum(part["cost"] for part in document["documents"]))
    assert [part["cost"] == 0 for part in document["documents"]] == [True, False]


def test_a_ceiling_ends_with_10_and_begins_no_further_document(online: Ekr) -> None:
    ended = online("ingest", "tram.md", "dome.md", *MODELS, "--max-llm-calls", "1", "--json")
    assert ended.code == 10
    [stopped] = ended.document["documents"]
    assert (stopped["status"], stopped["usage"]["llm_calls"]) == ("interrupted", 1)
    assert "raise max_llm_calls" in stopped["error"]
    assert [(d["name"], d["status"]) for d in online("list", "--json").document["documents"]] == [
        (stopped["name"], "interrupted")
    ]
    assert f"{stopped['name']} interrupted at extract_llm" in online("list").out
    shown = online("ingest", "tram.md", *MODELS, "--max-cost", "0.000001")
    assert shown.code == 10
    assert "raise max_cost" in shown.err
    again = online("ingest", "tram.md", "dome.md", *MODELS, "--json")
    assert (again.code, again.document["usage"]["llm_calls"]) == (0, 3)


def test_a_dry_run_says_what_it_would_cost_and_makes_nothing(online: Ekr, tmp_path: Path) -> None:
    document = online("ingest", "tram.md", "dome.md", *MODELS, "--dry-run", "--json").document
    assert (document["chunks"], document["to_read"], document["llm_calls"]["low"]) == (2, 2, 2)
    assert document["cost"]["low"] < document["cost"]["expected"] < document["cost"]["high"]
    assert not (tmp_path / "rag_storage").exists()
    shown = online("ingest", "tram.md", *MODELS, "--dry-run")
    assert "1 document (0 unchanged), 1 chunk, 1 to be read" in shown.out
    assert "cost" in shown.out
    assert "defaults" in shown.err
    assert online("ingest", "tram.md", *MODELS).code == 0
    again = online("ingest", "tram.md", *MODELS, "--dry-run")
    assert "1 document (1 unchanged)" in again.out
    assert "cost" not in again.out
    text = online("ingest", "-", "--name", "note.txt", *MODELS, "--dry-run", "--json", stdin="Mira Holt came back.")
    assert (text.code, text.document["chunks"], text.document["documents"][0]["name"]) == (0, 1, "note.txt")
    (tmp_path / "empty.md").write_text("")
    assert online("ingest", "empty.md", *MODELS, "--dry-run").code == 3


def test_a_question_says_what_it_cost(online: Ekr) -> None:
    assert online("ingest", "tram.md", *MODELS).code == 0
    ended = online("query", "Who repaired the ridge tram?", *MODELS)
    assert "2 calls, " in ended.err
    again = online("query", "Who repaired the ridge tram?", *MODELS)
    assert "2 given again" in again.err
    stopped = online("query", "Who closed the dome?", *MODELS, "--max-llm-calls", "0")
    assert (stopped.code, "max_llm_calls" in stopped.err) == (10, True)


def test_cost_sums_up_what_was_spent(online: Ekr) -> None:
    assert online("ingest", "tram.md", "dome.md", *MODELS).code == 0
    assert online("query", "Who repaired the ridge tram?", *MODELS).code == 0
    document = online("cost", "--by", "document", "--json").document
    assert list(document["rows"]) == ["dome.md", "tram.md"]
    assert document["questions"] == 1
    assert document["total"]["usage"]["llm_calls"] == 6
    assert document["total"]["cost"] > sum(row["cost"] for row in document["rows"].values()) > 0
    for by, names in (
        ("model", ("test-model", "test-embedding")),
        ("purpose", ("extract", "answer")),
        ("activity", ("ingest", "mix")),
    ):
        shown = online("cost", "--by", by)
        assert all(name in shown.out for name in (*names, "total")), by
    assert list(online("cost", "--by", "day", "--json").document["rows"].values()) == [document["total"]]


def test_cache_shows_what_is_kept_and_forgets_it(online: Ekr) -> None:
    assert online("ingest", "tram.md", *MODELS).code == 0
    assert online("query", "Who repaired the ridge tram?", *MODELS).code == 0
    assert "4 replies, 0.00 MB" in online("cache").out
    cleared = online("cache", "--clear", "--json").document
    assert (cleared["replies"], cleared["cleared"]) == (4, True)
    assert online("cache", "--json").document["replies"] == 0


def test_what_has_no_price_is_called_unpriced(online: Ekr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKR_PRICES")
    ended = online("ingest", "tram.md", *MODELS)
    assert (ended.code, "cost" in ended.out) == (0, False)
    assert "2 unpriced" in online("cost").out
    refused = online("ingest", "dome.md", *MODELS, "--max-cost", "1")
    assert (refused.code, "is not known" in refused.err) == (6, True)
    lost = online("ingest", "dome.md", *MODELS, "--prices", "nowhere.toml")
    assert (lost.code, "nowhere.toml" in lost.err) == (6, True)


def test_local_models_cost_nothing_and_are_not_spoken_of(ingested: Ekr) -> None:
    ended = ingested("query", "Who decides whether a night is cancelled?")
    assert "cost" not in ended.err
    assert ingested("cost").code == 0
