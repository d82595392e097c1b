"""What a model is asked for, and what is said where it did not keep to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from easy_knowledge_retriever.llm.base import Completion, Message, Priority
from easy_knowledge_retriever.operations.extraction_json import parse_reply
from easy_knowledge_retriever.operations.extraction_llm import LLMExtractor
from easy_knowledge_retriever.operations.extraction_task import EXAMPLE, ExtractionTask
from easy_knowledge_retriever.prompts.prompt_set import PromptSet
from easy_knowledge_retriever.settings import ExtractionFormat
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer
from easy_knowledge_retriever.types import EntityMention, ExtractionExample, RelationMention
from tests.unit.operations.test_extraction_llm import FIRST, TEXT, document_of, silent

FORMS: tuple[ExtractionFormat, ...] = ("lines", "json")
PROMPTS = PromptSet()
PASSAGE = """\
The Tidewater Observatory in Brenn was founded by Mira Holt in 1974, after the Norland Academy had refused her plan three
times. Its first telescope came from the workshop of Jon Lind in Marlow, who had built instruments for the Ostrania Survey
before. In 1981 the observatory discovered the comet Holt-Lind, and the Academy, which by then was led by Ida Brandt, took
over the costs of the building. The comet returns every forty-two years and was expected by the Survey."""


@pytest.mark.parametrize("form", FORMS)
def test_the_example_is_what_our_reader_reads(form: ExtractionFormat) -> None:
    shown = ExtractionTask(form=form).system(PROMPTS).rpartition("Example list:\n")[2]
    parsed = parse_reply(shown, form=form)
    assert (parsed.entities, parsed.relations, parsed.rejected, parsed.ended) == (EXAMPLE.entities, EXAMPLE.relations, 0, True)


@pytest.mark.parametrize("form", FORMS)
def test_examples_of_ones_own_take_the_place_of_ours(form: ExtractionFormat) -> None:
    made = ExtractionExample(
        "Kell floods Marlow.",
        (EntityMention("Kell", "River", "A river."), EntityMention("Marlow", "Town", "A town.")),
        (RelationMention("Kell", "Marlow", "It floods it.", ("flooding",), 7),),
    )
    told = ExtractionExample("Nothing.", written="AS WRITTEN")
    system = ExtractionTask(form=form, examples=(made, told)).system(PROMPTS)
    assert "Mira Holt" not in system
    assert system.endswith("Example passage:\nNothing.\n\nExample list:\nAS WRITTEN")
    shown = system.partition("Example list:\n")[2].partition("\n\nExample")[0]
    assert parse_reply(shown, form=form).relations == made.relations


def test_a_vocabulary_is_asked_for_and_what_breaks_it_is_kept_and_counted() -> None:
    task = ExtractionTask(("Person", "Place"), ("founding", "Location"))
    system = task.system(PROMPTS)
    assert "only from this list: founding, Location" in system
    assert "| founding |" in system
    assert "| Location |" in system
    parsed = task.spelled(
        parse_reply(
            "E | A | person | x\nE | B | Castle | x\nE | C | other | x\n"
            "R | A | B | location, FOUNDING | 1 | x\nR | A | C | likes | 1 | x\nR | B | C | x\n"
        )
    )
    assert [mention.type for mention in parsed.entities] == ["Person", "Castle", "Other"]
    assert [relation.keywords for relation in parsed.relations] == [("Location", "founding"), ("likes",), ()]
    assert list(task.violations([parsed])) == [
        "1 entities have a type that was not asked for: 'Castle'",
        "2 relations have keywords outside relation_types, or none: 'likes'",
    ]


def test_without_a_vocabulary_any_keyword_will_do() -> None:
    task = ExtractionTask()
    assert list(task.violations([parse_reply(FIRST)])) == []
    assert "one to three words" in task.system(PROMPTS)


def test_many_strange_types_are_named_in_part() -> None:
    lines = "\n".join(f"E | N{number} | Kind{number} | x" for number in range(7))
    (warning,) = ExtractionTask().violations([parse_reply(lines)])
    assert warning.endswith("'Kind0', 'Kind1', 'Kind2', 'Kind3', 'Kind4' and 2 more")


class Schemed(FakeLLMService):
    """Remembers the schemas it was asked with."""

    schemas: list[Mapping[str, Any] | None]

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        priority: Priority = "query",
        max_tokens: int | None = None,
        json_schema: Mapping[str, Any] | None = None,
    ) -> Completion:
        self.schemas = [*getattr(self, "schemas", []), json_schema]
        return await super().complete(messages, priority=priority, max_tokens=max_tokens)


@pytest.mark.parametrize("form", FORMS)
async def test_a_schema_is_sent_where_json_is_wanted(form: ExtractionFormat) -> None:
    model = Schemed(
        lambda messages: '{"entities": [{"name": "Mira Holt", "type": "person", "description": ""}], "relations": []}'
    )
    document, chunks = document_of(TEXT)
    outcome = await LLMExtractor(model, ExtractionTask(form=form)).extract(document, chunks, silent)
    assert [mention.type for mention in outcome.extractions[0].entities] == ["Person"]
    assert [schema is not None for schema in model.schemas] == [form == "json"] * 2
    assert ("two empty lists" in model.requests[1][-1].content) == (form == "json")


async def test_json_that_had_to_be_mended_is_said() -> None:
    document, chunks = document_of(TEXT)
    model = FakeLLMService(['{"entities": [{"name": "Mira Holt", "type": "Person",}], "relations": []}'])
    outcome = await LLMExtractor(model, ExtractionTask(form="json"), max_gleaning=0).extract(document, chunks, silent)
    assert outcome.warnings == ("the JSON of the model had to be mended in 1 chunks: trailing comma",)


COMPLETE = "E | Mira Holt | Person | x\nE | Tidewater Observatory | Organization | x\nE | Brenn | Location | x\nEND"


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (COMPLETE, 1),
        (COMPLETE.replace("\nEND", ""), 2),
        (COMPLETE.replace("E | Tidewater Observatory | Organization | x\n", ""), 2),
        (COMPLETE.replace("Tidewater Observatory", "the Tidewater Observatory of Brenn"), 1),
    ],
)
async def test_a_further_round_only_where_something_is_missing(reply: str, calls: int) -> None:
    document, chunks = document_of("They say Mira Holt founded the Tidewater Observatory in Brenn.")
    model = FakeLLMService([reply, "END"])
    await LLMExtractor(model, gleaning="where_missing").extract(document, chunks, silent)
    assert model.calls == calls


def test_the_prompt_is_short() -> None:
    """A passage of some 110 tokens: what is sent once, and what a further round adds to the prefix that is sent again."""
    count = TiktokenTokenizer("gpt-4o-mini").encode
    _, (chunk,) = document_of(PASSAGE)
    assert 100 <= len(count(PASSAGE)) <= 120
    for form in FORMS:
        most = 520 if form == "lines" else 620
        extractor = LLMExtractor(FakeLLMService(), ExtractionTask(form=form))
        assert sum(len(count(message.content)) for message in extractor.request(chunk)) <= most
        assert len(count(ExtractionTask(form=form).gleaning(PROMPTS))) <= 40


def test_the_beginning_never_changes() -> None:
    extractor = LLMExtractor(FakeLLMService())
    _, chunks = document_of(TEXT, PASSAGE)
    first, second = (extractor.request(chunk)[0] for chunk in chunks)
    assert first == second
