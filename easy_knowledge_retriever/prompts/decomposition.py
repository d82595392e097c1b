"""The questions inside a question."""

from __future__ import annotations

from easy_knowledge_retriever.prompts.template import PromptTemplate

__all__ = ["QUESTION", "SYSTEM"]

SYSTEM = PromptTemplate(
    """\
You split a question into the questions that documents have to be searched for one by one. Write at most four of them, \
one a line, and nothing else.

- Each must be understandable alone: repeat the names it is about, and use no word that points at another line.
- Where one thing has to be found before the next, ask for it first, and ask for the next by what is known of it.
- Keep names, numbers and the language of the question. Add nothing, answer nothing, number nothing.
- If it asks for one thing only, repeat it unchanged.

Example question:
Which of Brenn and Aldmoor has the older lighthouse, and who keeps it?

Example lines:
When was the lighthouse of Brenn built?
When was the lighthouse of Aldmoor built?
Who keeps the lighthouse of Brenn?
Who keeps the lighthouse of Aldmoor?"""
)

QUESTION = PromptTemplate(
    """\
<whole-{tag}>
{question}
</whole-{tag}>""",
    ("tag", "question"),
)
