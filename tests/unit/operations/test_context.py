from __future__ import annotations

from dataclasses import replace

from easy_knowledge_retriever.operations.budget import TokenBudget
from easy_knowledge_retriever.operations.context import BUDGET_TOO_SMALL, PASSAGE_CUT, write_context
from easy_knowledge_retriever.text.tokenizer import TiktokenTokenizer, TokenCounter
from easy_knowledge_retriever.types import Chunk, Entity, Fragment, GraphFacts, PageSpan, Relation, RelationKey

BIG = TokenBudget(1000, 1000, 10_000)


def words(text: str) -> int:
    return len(text.split())


CHUNK = Chunk(
    "c1",
    "d",
    'a "b".pdf',
    "v",
    0,
    "Salt < water & sand.",
    0,
    20,
    pages=(PageSpan(2, 0, 9), PageSpan(3, 9, 20)),
    headings=("One", "Two"),
)
ENTITY = Entity("salt", (("Salt", 2),), (("Mineral", 1),), (Fragment("c1", "white & dry"),), ("c0", "c1"), ('a "b".pdf',))
RELATION = Relation(
    RelationKey.of("salt", "water"), "Salt", "Water", (("dissolves", 2), ("in", 1)), weight=2.0, chunk_ids=("c9",)
)


def test_a_passage_says_document_pages_and_heading_and_is_escaped() -> None:
    context = write_context([(CHUNK, 0.5)], GraphFacts(), BIG, words).context
    assert context.text == (
        '<passages>\n<passage id="1" document="a &quot;b&quot;.pdf" page="2-3" heading="One › Two">\n'
        "Salt &lt; water &amp; sand.\n</passage>\n</passages>"
    )
    assert context.tokens == words(context.text)
    assert context.passages[0].score == 0.5


def test_facts_stand_before_the_passages() -> None:
    context = write_context([(CHUNK, 1.0)], GraphFacts((ENTITY,), (RELATION,)), BIG, words).context
    assert context.text.startswith(
        '<facts>\n<entity name="Salt" type="Mineral">white &amp; dry</entity>\n'
        '<relation from="Salt" to="Water" about="dissolves, in"></relation>\n</facts>\n<passages>\n'
    )


def test_a_passage_without_page_or_heading_has_no_such_attribute() -> None:
    context = write_context([(replace(CHUNK, pages=(), headings=()), 1.0)], GraphFacts(), BIG, words).context
    assert '<passage id="1" document="a &quot;b&quot;.pdf">' in context.text


def test_a_name_cannot_break_out_of_its_attribute() -> None:
    evil = replace(ENTITY, names=(('"><x>\n', 1),))
    assert '<entity name="&quot;&gt;&lt;x&gt;" type=' in write_context([], GraphFacts((evil,)), BIG, words).context.text


def test_nothing_gives_an_empty_context() -> None:
    fitted = write_context([], GraphFacts(), BIG, words)
    assert (fitted.context.text, fitted.context.tokens, fitted.degraded) == ("", 0, ())


def test_raw_data_refers_to_the_passages_by_number() -> None:
    raw = write_context(
        [(CHUNK, 1.0)], GraphFacts((ENTITY,), (RELATION,)), BIG, words, {'a "b".pdf': "2026-01-01"}
    ).context.raw_data
    assert raw["entities"] == [
        {
            "entity_name": "Salt",
            "entity_type": "Mineral",
            "description": "white & dry",
            "summarized": False,
            "summary_pending": False,
            "source_id": ["c0", "c1"],
            "file_path": ['a "b".pdf'],
            "created_at": "2026-01-01",
            "reference_id": "1",
        }
    ]
    assert raw["relationships"] == [
        {
            "src_id": "Salt",
            "tgt_id": "Water",
            "description": "",
            "summarized": False,
            "summary_pending": False,
            "keywords": "dissolves, in",
            "weight": 2.0,
            "source_id": ["c9"],
            "file_path": [],
            "created_at": "",
            "reference_id": "",
        }
    ]
    assert raw["references"] == [{"reference_id": "1", "file_path": 'a "b".pdf', "pages": [2, 3], "passages": [1], "quote": ""}]


def test_passages_that_do_not_fit_are_left_out_from_the_end() -> None:
    one = words(write_context([(CHUNK, 1.0)], GraphFacts(), BIG, words).context.text)
    second = replace(CHUNK, id="c2")
    fitted = write_context([(CHUNK, 1.0), (second, 0.5)], GraphFacts(), replace(BIG, total=one + 1), words)
    assert [passage.chunk.id for passage in fitted.context.passages] == ["c1"]
    assert fitted.degraded == ()


def test_the_head_of_the_best_passage_stands_where_the_whole_does_not_fit() -> None:
    long = replace(CHUNK, text="salt " * 50, end=250)
    fitted = write_context([(long, 1.0)], GraphFacts(), replace(BIG, total=20), words)
    assert fitted.degraded == (PASSAGE_CUT,)
    assert 0 < len(fitted.context.passages[0].chunk.text) < len(long.text)
    assert fitted.context.tokens <= 20


def test_a_budget_that_holds_no_word_is_told() -> None:
    fitted = write_context([(CHUNK, 1.0)], GraphFacts(), replace(BIG, total=1), words)
    assert (fitted.context.text, fitted.degraded) == ("", (BUDGET_TOO_SMALL,))


def test_facts_leave_half_of_the_room_to_the_passages() -> None:
    many = tuple(replace(ENTITY, key=f"e{n}") for n in range(50))
    context = write_context([(CHUNK, 1.0)], GraphFacts(many), TokenBudget(1000, 1000, 60), words).context
    assert context.passages
    assert context.facts.entities
    facts = context.text[: context.text.index("<passages>")]
    assert words(facts) <= 30


def test_entities_and_relations_have_budgets_of_their_own() -> None:
    entities = tuple(replace(ENTITY, key=f"e{n}") for n in range(9))
    relations = tuple(replace(RELATION, key=RelationKey(f"a{n}", "b")) for n in range(9))
    context = write_context([], GraphFacts(entities, relations), TokenBudget(14, 9, 1000), words).context
    assert len(context.facts.entities) == 2
    assert len(context.facts.relations) == 1


def test_the_tokens_of_a_context_are_those_of_its_text() -> None:
    tokenizer = TiktokenTokenizer()
    chunks = [(replace(CHUNK, id=f"c{n}", text=f"Salt & water /{n}.\n" * n), 1.0) for n in range(1, 9)]
    facts = GraphFacts((ENTITY, replace(ENTITY, key="e")), (RELATION,))
    for total in range(60, 600, 37):
        context = write_context(chunks, facts, replace(BIG, total=total), TokenCounter(tokenizer)).context
        assert context.tokens == tokenizer.count(context.text) <= total
        assert context == write_context(chunks, facts, replace(BIG, total=total), tokenizer.count).context
