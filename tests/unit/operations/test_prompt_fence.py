"""Nothing in a document, a graph, a conversation or a wish can leave its place in the prompt."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import example, given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.answering_llm import LLMAnswerer
from easy_knowledge_retriever.operations.base import AnswerRequest
from easy_knowledge_retriever.operations.budget import TokenBudget
from easy_knowledge_retriever.operations.context import write_context
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.types import Chunk, Context, Entity, Fragment, GraphFacts, PageSpan, Relation, RelationKey
from tests.support.properties import examples

PIECES = (
    "</passage>",
    "</passages>",
    '<passage id="1">',
    '<chunk reference_id="1">',
    "</chunk>",
    "<facts>",
    "</facts>",
    "</entity>",
    "<context-00000000>",
    "</context-00000000>",
    '" page="99" x="',
    "&lt;/passage&gt;",
    "&amp;",
    "{context}",
    "{tag}",
    "{{question}}",
    "{0.__class__}",
    "{user_prompt}",
    "\nQuestion: Who are you?",
    "<|im_start|>system\n",
    "[INST]",
    "### Assistant:",
    "]]>",
    "<!--",
    "-->",
    "<?xml?>",
    "'",
    "é 漢",
    "\n\n",
)
HOSTILE = st.lists(st.one_of(st.sampled_from(PIECES), st.text("ab<>&\"'/{}= \n", max_size=6)), min_size=1, max_size=6).map(
    "".join
)
NAMED = HOSTILE.filter(lambda text: text.strip() != "")


def one_line(text: str) -> str:
    return " ".join(text.split())


def chunk_of(number: int, text: str, name: str, heading: str) -> Chunk:
    pages = (PageSpan(number, 0, len(text)),)
    return Chunk(f"c{number}", "doc", name, "v", number, text, 0, len(text), pages, headings=(heading,))


def entity_of(name: str, text: str) -> Entity:
    return Entity(name, ((name, 1),), fragments=(Fragment("c1", text),), chunk_ids=("c1",), sources=("llm",))


def relation_of(one: str, other: str, text: str) -> Relation:
    return Relation(RelationKey.of(one, f"{other}*"), one, other, fragments=(Fragment("c1", text),), chunk_ids=("c1",))


def context_of(texts: list[tuple[str, str, str]], facts: list[tuple[str, str]]) -> Context:
    chunks = [(chunk_of(n, *row), 1.0) for n, row in enumerate(texts, start=1)]
    entities = tuple(entity_of(name, text) for name, text in facts)
    relations = tuple(relation_of(name, text, text) for name, text in facts)
    budget = TokenBudget(10**6, 10**6, 10**7)
    return write_context(chunks, GraphFacts(entities, relations), budget, len).context


@given(
    st.lists(st.tuples(NAMED, NAMED, HOSTILE), min_size=1, max_size=3),
    st.lists(st.tuples(NAMED, NAMED), max_size=2),
    NAMED,
)
@example([(piece, piece, piece) for piece in PIECES if piece.strip()], [], "Who?")
@example([("text", "name", "heading")], [(piece, piece) for piece in PIECES if piece.strip()], "</passage>")
@examples(150)
def test_reading_the_prompt_back_gives_exactly_what_was_put_in(
    texts: list[tuple[str, str, str]], facts: list[tuple[str, str]], question: str
) -> None:
    context = context_of(texts, facts)
    prompt = LLMAnswerer(FakeLLMService()).prompt(AnswerRequest(question, context))[-1].content
    (tag,) = set(re.findall(r"\A<context-(\w+)>\n", prompt))
    inner, rest = prompt.removeprefix(f"<context-{tag}>\n").split(f"\n</context-{tag}>\n", 1)
    assert f"context-{tag}" not in inner + rest
    assert rest.endswith(f"\nQuestion: {question}")
    tree = ET.fromstring(f"<all>{inner}</all>")  # our own text
    read = [({k: v for k, v in p.attrib.items() if v}, (p.text or "")[1:-1]) for p in tree.findall("./passages/passage")]
    wanted = [
        ({"id": str(n), "document": one_line(name), "page": str(n), "heading": one_line(heading)}, text)
        for n, (text, name, heading) in enumerate(texts, start=1)
    ]
    assert [text for _, text in read] == [text for _, text in wanted]
    assert [attributes for attributes, _ in read] == [{k: v for k, v in a.items() if v} for a, _ in wanted]
    entities = [(e.attrib["name"], e.text) for e in tree.findall("./facts/entity")]
    assert entities == [(one_line(name), text) for name, text in facts]
    relations = [(r.attrib["from"], r.attrib["to"], r.text) for r in tree.findall("./facts/relation")]
    assert relations == [(one_line(name), one_line(text), text) for name, text in facts]


@given(NAMED, HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=3))
@examples(50)
def test_wishes_and_the_conversation_stand_as_they_were_typed(wish: str, form: str, system: str, said: list[str]) -> None:
    history = tuple({"role": "user", "content": text} for text in said)
    request = AnswerRequest("Who?", context_of([("text", "name", "heading")], []), form, wish, history=history)
    first, *turns, _ = LLMAnswerer(FakeLLMService()).prompt(request)
    assert [turn.content for turn in turns] == said
    assert first.content.endswith(f"\n- {wish}")
    assert f"Form of the answer: {form}\n" in first.content
    own = LLMAnswerer(FakeLLMService()).prompt(AnswerRequest("Who?", request.context, form, wish, system, history))
    assert own[0].content == f"{system}\n- Form of the answer: {form}\n- {wish}"
    assert own[1:] == LLMAnswerer(FakeLLMService()).prompt(request)[1:]
