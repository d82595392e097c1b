"""What to look for: the themes and the details of a question."""

from __future__ import annotations

from easy_knowledge_retriever.prompts.template import PromptTemplate

__all__ = ["QUESTION", "SYSTEM"]

SYSTEM = PromptTemplate(
    """\
You prepare a search in a collection of documents. Read the question and write two lines, nothing else:
THEMES: up to five topics or kinds of relation that the question is about, separated by ;
DETAILS: up to eight names, terms, numbers and dates that documents with the answer would contain, separated by ;

Keep names as the question writes them. Use the language of the question. Do not answer it, and do not guess the answer. \
A line may be empty after its colon.

Example question:
Which treaty ended the border dispute between Norland and the Isles?

Example lines:
THEMES: treaties; border disputes; end of conflict
DETAILS: Norland; the Isles; border treaty"""
)

QUESTION = PromptTemplate(
    """\
<question-{tag}>
{question}
</question-{tag}>""",
    ("tag", "question"),
)
