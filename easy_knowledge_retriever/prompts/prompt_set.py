"""All prompts as one value, so that a user can replace some of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from easy_knowledge_retriever.errors import ConfigError
from easy_knowledge_retriever.prompts import answer, decomposition, extraction, judging, keywords, rewriting, summary
from easy_knowledge_retriever.prompts.template import PromptTemplate

__all__ = ["PromptSet"]


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of a retriever. Replace one with ``PromptSet(answer_system=PromptTemplate(...))``.

    A template of your own has the same fields as the one it replaces, though its text need not use each of them.

    Raises:
        ConfigError: A template has other fields than the one it replaces.
    """

    extraction_system: PromptTemplate = extraction.SYSTEM
    extraction_passage: PromptTemplate = extraction.PASSAGE
    extraction_gleaning: PromptTemplate = extraction.GLEANING
    summary_system: PromptTemplate = summary.SYSTEM
    summary_statements: PromptTemplate = summary.STATEMENTS
    rewriting_system: PromptTemplate = rewriting.SYSTEM
    rewriting_turn: PromptTemplate = rewriting.TURN
    rewriting_question: PromptTemplate = rewriting.QUESTION
    decomposition_system: PromptTemplate = decomposition.SYSTEM
    decomposition_question: PromptTemplate = decomposition.QUESTION
    keywords_system: PromptTemplate = keywords.SYSTEM
    keywords_question: PromptTemplate = keywords.QUESTION
    answer_system: PromptTemplate = answer.GROUNDED
    answer_question: PromptTemplate = answer.QUESTION
    answer_ungrounded: PromptTemplate = answer.UNGROUNDED
    judging_system: PromptTemplate = judging.SYSTEM
    judging_pair: PromptTemplate = judging.PAIR
    judging_pairs: PromptTemplate = judging.PAIRS

    def __post_init__(self) -> None:
        for field in fields(self):
            given: PromptTemplate = getattr(self, field.name)
            ours = field.default
            if isinstance(ours, PromptTemplate) and set(given.fields) != set(ours.fields):
                raise ConfigError(f"the prompt {field.name} has the fields {given.fields!r}", hint=f"give {ours.fields!r}")
