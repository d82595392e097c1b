"""Prompts: named places, nothing else."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.prompts.template import PromptTemplate

TEMPLATE = PromptTemplate("{a} and {b} but not {c} or {{a}}", ("a", "b"))


def test_only_declared_names_are_places() -> None:
    assert TEMPLATE.render(a="1", b="2") == "1 and 2 but not {c} or {1}"
    assert PromptTemplate("no {place}").render() == "no {place}"


@given(st.text(), st.text())
def test_a_value_is_never_a_template(one: str, other: str) -> None:
    assert PromptTemplate("{a}|{b}", ("a", "b")).render(a=one, b=other) == f"{one}|{other}"
    assert TEMPLATE.render(a="{b}", b="{0.__class__}") == "{b} and {0.__class__} but not {c} or {{b}}"


@pytest.mark.parametrize("values", [{}, {"a": "1"}, {"a": "1", "b": "2", "c": "3"}])
def test_every_field_takes_one_value(values: dict[str, str]) -> None:
    with pytest.raises(TypeError):
        TEMPLATE.render(**values)


@pytest.mark.parametrize("name", [field.name for field in fields(PromptSet)])
def test_every_prompt_of_ours_renders(name: str) -> None:
    template: PromptTemplate = getattr(PromptSet(), name)
    assert all(f"{{{field}}}" in template.text for field in template.fields)
    values = {field: f"<{field}>" for field in template.fields}
    rendered = template.render(**values)
    assert all(value in rendered for value in values.values())
    assert "{" not in rendered


def test_a_prompt_with_other_fields_is_refused() -> None:
    with pytest.raises(ConfigError, match="answer_question"):
        PromptSet(answer_question=PromptTemplate("{context}", ("context",)))
