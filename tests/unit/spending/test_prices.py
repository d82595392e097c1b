"""Prices and what they make of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.spending.prices import FREE, Price, price_table
from easy_knowledge_retriever.types import Usage


def test_tokens_are_priced_by_the_million() -> None:
    price = Price(input=2.0, output=8.0, cached_input=0.5, rerank_call=0.002)
    assert price.of(Usage(prompt_tokens=1_000_000)) == pytest.approx(2.0)
    assert price.of(Usage(prompt_tokens=1_000_000, cached_prompt_tokens=600_000)) == pytest.approx(0.4 * 2.0 + 0.6 * 0.5)
    assert price.of(Usage(completion_tokens=500)) == pytest.approx(500 * 8 / 1_000_000)
    assert price.of(Usage(embedding_tokens=250_000)) == pytest.approx(0.5)
    assert price.of(Usage(rerank_calls=3, llm_calls=9, cached_calls=9)) == pytest.approx(0.006)
    assert FREE.of(Usage(prompt_tokens=10**9, rerank_calls=5)) == 0


def test_cached_tokens_cost_as_much_as_others_unless_it_is_said() -> None:
    assert Price(input=2.0).of(Usage(prompt_tokens=1_000_000, cached_prompt_tokens=1_000_000)) == pytest.approx(2.0)


@pytest.mark.parametrize("wrong", [{"input": -1}, {"output": float("nan")}, {"rerank_call": "1"}, {"cached_input": float("inf")}])
def test_a_price_is_a_number(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="price"):
        Price(**wrong)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.toml", '["big/model:1"]\ninput = 0.5\noutput = 1.5\n[small]\ninput = 0.1\ncached_input = 0.05\n'),
        ("prices.json", '{"big/model:1": {"input": 0.5, "output": 1.5}, "small": {"input": 0.1, "cached_input": 0.05}}'),
    ],
)
def test_a_file_says_the_same_as_a_mapping(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    wanted = {"big/model:1": Price(input=0.5, output=1.5), "small": Price(input=0.1, cached_input=0.05)}
    assert price_table(path) == price_table(str(path)) == price_table(wanted) == wanted
    assert price_table({"small": {"input": 0.1, "cached_input": 0.05}}) == {"small": wanted["small"]}
    assert price_table(None) == {}


@pytest.mark.parametrize("text", ["no = toml = here", "model = 3", "[model]\ninputs = 3", "[model]\ninput = 'x'", "\udcff"])
def test_a_file_that_is_no_table_of_prices_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="price"):
        price_table(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        price_table(tmp_path / "nowhere.toml")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ConfigError, match="no table"):
        price_table(tmp_path / "list.json")
