"""Merging knows no order: taken in one by one or all at once, the result is the same."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.operations.merging import (
    MAX_FRAGMENTS,
    EntityEvidence,
    Limits,
    RelationEvidence,
    absorb_entity,
    absorb_relation,
    evidence_in,
    merged_entity,
    merged_relation,
    with_ends,
)
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.types import (
    Entity,
    EntityMention,
    Extraction,
    Fragment,
    Relation,
    RelationKey,
    RelationMention,
)

LIMITS = Limits(chunk_ids=3, file_paths=2, keep_first=True, more="and more")
LAST = Limits(chunk_ids=3, file_paths=2, keep_first=False, more="and more")
words = st.sampled_from(["", "one", "two", "three", "four"])
sources = st.sampled_from(["declared", "local", "llm"])
chunks = st.integers(0, 9).map(lambda n: f"chunk-{n}")
paths = st.sampled_from(["a.md", "b.md", "c.md", "d.md"])
entity_mentions = st.builds(
    EntityEvidence,
    st.builds(EntityMention, st.sampled_from(["Verdel", "VERDEL", "verdel"]), st.sampled_from(["UNKNOWN", "River"]), words),
    chunks,
    paths,
    sources,
)
relation_mentions = st.builds(
    RelationEvidence,
    st.builds(
        RelationMention,
        st.sampled_from(["Verdel", "verdel"]),
        st.sampled_from(["Kell", "KELL"]),
        words,
        st.lists(words, max_size=2).map(tuple),
        st.sampled_from([0.1, 0.2, 1.0, 1 / 3]),
    ),
    chunks,
    paths,
    sources,
)
limits = st.sampled_from([LIMITS, LAST])
KEY = RelationKey.of("verdel", "kell")


@given(st.lists(entity_mentions, max_size=12), st.lists(st.integers(0, 12), max_size=3), st.randoms(), limits)
def test_an_entity_taken_in_by_parts_is_the_entity_merged_at_once(
    evidence: list[EntityEvidence], cuts: list[int], random: Random, limits: Limits
) -> None:
    whole = merged_entity("verdel", evidence, limits)
    random.shuffle(evidence)
    entity = Entity("verdel")
    borders = [0, *sorted(cuts), len(evidence)]
    for start, end in pairwise(borders):
        entity = absorb_entity(entity, evidence[start:end], limits)
    assert entity == whole


@given(st.lists(relation_mentions, max_size=12, min_size=1), st.lists(st.integers(0, 12), max_size=3), st.randoms(), limits)
def test_a_relation_taken_in_by_parts_is_the_relation_merged_at_once(
    evidence: list[RelationEvidence], cuts: list[int], random: Random, limits: Limits
) -> None:
    whole = merged_relation(KEY, evidence, limits)
    random.shuffle(evidence)
    relation = Relation(KEY)
    borders = [0, *sorted(cuts), len(evidence)]
    for start, end in pairwise(borders):
        if start < end:
            relation = absorb_relation(relation, evidence[start:end], limits)
    assert relation == whole


@given(st.lists(entity_mentions, min_size=1, max_size=12), limits)
def test_an_entity_shows_what_its_mentions_say(evidence: list[EntityEvidence], limits: Limits) -> None:
    entity = merged_entity("verdel", evidence, limits)
    ids = sorted({e.chunk_id for e in evidence})
    files = sorted({e.file_path for e in evidence})
    shown = files[:2] if limits.keep_first else files[-2:]
    assert dict(entity.names) == Counter(e.mention.name for e in evidence)
    assert entity.chunk_ids == tuple(ids[:3] if limits.keep_first else ids[-3:])
    assert entity.file_paths == (*shown, "and more") if len(files) > 2 else tuple(files)
    assert entity.mention_count == len(evidence)
    assert {f.text for f in entity.fragments} == {e.mention.description for e in evidence} - {""}


def test_the_limits_are_those_of_the_settings() -> None:
    settings = Settings(
        max_source_ids_per_entity=1, max_source_ids_per_relation=2, max_file_paths=3, source_ids_limit_method="KEEP"
    )
    assert Limits.of_entities(settings) == Limits(1, 3, True, "truncated")
    assert Limits.of_relations(settings) == Limits(2, 3, True, "truncated")
    assert not Limits.of_entities(Settings()).keep_first


def test_descriptions_are_capped_and_the_same_words_count_once() -> None:
    evidence = [EntityEvidence(EntityMention("X", description=f"{n:02}"), f"c{n:02}", "a", "llm") for n in range(40)]
    evidence.append(EntityEvidence(EntityMention("X", description="05"), "c99", "a", "llm"))
    first, last = merged_entity("x", evidence, LIMITS), merged_entity("x", evidence, LAST)
    assert first.fragments == tuple(Fragment(f"c{n:02}", f"{n:02}") for n in range(MAX_FRAGMENTS))
    assert last.fragments[-1] == Fragment("c99", "05")
    assert len(last.fragments) == MAX_FRAGMENTS


def test_a_summary_stands_until_something_new_is_said() -> None:
    mention = EntityEvidence(EntityMention("X", description="says this"), "c1", "a", "llm")
    entity = Entity("x", fragments=(Fragment("c1", "says this"),), summary="It says this.")
    assert absorb_entity(entity, [mention._replace(chunk_id="c2")], LIMITS).summary == "It says this."
    new = mention._replace(mention=EntityMention("X", description="says that"))
    assert absorb_entity(entity, [new], LIMITS).summary == ""


def test_weights_add_up_in_thousandths() -> None:
    evidence = [RelationEvidence(RelationMention("a", "b", weight=0.1), f"c{n}", "f", "llm", ("a", "b")) for n in range(3)]
    assert merged_relation(RelationKey.of("a", "b"), evidence, LIMITS).weight == 0.3


def test_of_several_spellings_the_one_with_some_capitals_is_shown() -> None:
    evidence = [
        RelationEvidence(RelationMention(source, "kell"), "c", "f", "llm", ("kell", source))
        for source in ("verdel", "VERDEL", "Verdel")
    ]
    relation = merged_relation(KEY, evidence, LIMITS)
    assert (relation.first_name, relation.second_name) == ("kell", "Verdel")


def test_ends_of_relations_become_entities_and_empty_names_nothing() -> None:
    extraction = Extraction(
        "c",
        "d",
        "llm",
        (EntityMention("Verdel", "River"), EntityMention("  ")),
        (RelationMention("VERDEL", "Kell"), RelationMention("Kell", "kell"), RelationMention("", "Kell")),
    )
    complete = with_ends(extraction)
    assert complete is not None
    assert complete.entities == (EntityMention("Verdel", "River"), EntityMention("Kell"))
    assert complete.relations == (RelationMention("VERDEL", "Kell"),)
    assert with_ends(Extraction("c", "d", "llm")) is None


def test_evidence_is_sorted_by_what_it_is_of() -> None:
    extraction = Extraction("c", "d", "local", (EntityMention("Verdel"),), (RelationMention("Verdel", "Kell"),))
    evidence = evidence_in([(extraction, "a.md")])
    assert evidence.entities == {"verdel": [EntityEvidence(EntityMention("Verdel"), "c", "a.md", "local")]}
    assert list(evidence.relations) == [KEY]
