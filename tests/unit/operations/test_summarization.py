"""Which descriptions are summarised, in which groups, and which replies are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import BadResponse
from easy_knowledge_retriever.llm.base import LLMService, Message
from easy_knowledge_retriever.llm.service import OpenAILLMService
from easy_knowledge_retriever.operations.summarization import Group, Summarizer, SummaryLimits, readable_summary
from easy_knowledge_retriever.settings import Settings
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.text.hashing import digest
from easy_knowledge_retriever.types import Entity, Fragment, Relation, RelationKey, Summary, Usage

TEXTS = st.sets(st.text(st.sampled_from("ab "), min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=24)


def words(text: str) -> int:
    return len(text.split())


def entity(*texts: str) -> Entity:
    return Entity("verdel", (("Verdel", 1),), fragments=tuple(Fragment(f"c{n}", text) for n, text in enumerate(texts)))


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, Summary] = {}
        self.usage = Usage()

    def made(self, key: str) -> str:
        return self.rows[key].text if key in self.rows else ""

    async def keep(self, key: str, summary: Summary) -> None:
        self.rows[key] = summary

    def spent(self, usage: Usage) -> None:
        self.usage += usage


def summarizer(
    model: LLMService | None = None, *, context_size: int = 12, max_tokens: int = 4, identity: str = "m"
) -> Summarizer:
    limits = SummaryLimits(fragments=2, max_tokens=max_tokens, context_size=context_size, recommended=4)
    return Summarizer(model or FakeLLMService(), identity, limits, words)


def said(messages: Sequence[Message]) -> list[str]:
    """The statements of a request."""
    return [line.removeprefix("- ") for line in messages[-1].content.splitlines() if line.startswith("- ")]


def counting() -> Callable[[Sequence[Message]], str]:
    return lambda messages: f"Verdel {len(said(messages))}."


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ((), False),
        (("one",), False),
        (("one", "two"), False),
        (("one", "two", "three"), True),
        (("a b c d e",), False),
        (("a b c d e f",), True),
        (("a b c", "d e f"), True),
    ],
)
def test_many_descriptions_or_long_ones_call_for_a_summary(texts: tuple[str, ...], wanted: bool) -> None:
    assert SummaryLimits(fragments=3, max_tokens=5).call_for_summary(entity(*texts), words) is wanted


def test_short_texts_are_not_counted() -> None:
    def refused(text: str) -> int:
        raise AssertionError("nothing this short needs to be counted")

    assert not SummaryLimits(max_tokens=10).call_for_summary(entity("ab", "cde"), refused)


@pytest.mark.parametrize(("retriever", "service", "used"), [(8, 8, 8), (8, 5, 5), (3, 5, 3), (3, 8, 3)])
def test_the_retriever_goes_before_the_service(retriever: int, service: int, used: int) -> None:
    model = OpenAILLMService("m", "http://127.0.0.1:1/v1", "k", force_llm_summary_on_merge=service)
    limits = SummaryLimits.of(Settings(force_llm_summary_on_merge=retriever), model)
    assert limits == SummaryLimits(used, 1200, 12000, 600)


def test_a_service_says_the_rest_and_two_summaries_fit_into_a_request() -> None:
    model = OpenAILLMService(
        "m", "http://127.0.0.1:1/v1", "k", summary_max_tokens=900, summary_context_size=1000, summary_length_recommended=700
    )
    assert SummaryLimits.of(Settings(), model) == SummaryLimits(8, 500, 1000, 500)
    assert SummaryLimits.of(Settings(force_llm_summary_on_merge=2), FakeLLMService()) == SummaryLimits(2, 1200, 12000, 600)


def leaves(group: Group) -> list[Group]:
    return [below for below in group.all() if not below.parts]


@given(TEXTS, st.integers(1, 8))
def test_groups_are_a_partition_that_fits(texts: set[str], size: int) -> None:
    cutter = summarizer(context_size=size, max_tokens=max(1, size // 2))
    whole = cutter.group(sorted(texts))
    assert sorted(text for leaf in leaves(whole) for text in leaf.texts) == sorted(texts)
    assert all(len(leaf.texts) == 1 or sum(words(text) + 1 for text in leaf.texts) <= size for leaf in leaves(whole))
    for group in whole.all():
        assert sorted(group.covers) == sorted(map(digest, group.texts))
        assert [text for part in group.parts for text in part.texts] in ([], list(group.texts))
        assert len(group.parts) <= max(2, size // max(1, size // 2))
    assert whole == cutter.group(sorted(texts, reverse=True))


@given(TEXTS, st.text(st.sampled_from("xyz"), min_size=1, max_size=6))
def test_a_fragment_more_changes_its_own_group_and_those_above(texts: set[str], new: str) -> None:
    cutter = summarizer(context_size=6, max_tokens=3)
    before, after = cutter.group(sorted(texts)), cutter.group(sorted({*texts, new}))
    kept = {leaf.covers for leaf in leaves(before)}
    changed = [leaf for leaf in leaves(after) if leaf.covers not in kept]
    touched = [leaf for leaf in leaves(before) if leaf.covers not in {leaf.covers for leaf in leaves(after)}]
    assert len(touched) <= 1
    assert {text for leaf in changed for text in leaf.texts} == {new, *(text for leaf in touched for text in leaf.texts)}


def test_a_key_is_of_the_subject_the_exact_set_the_language_and_the_model_and_holds_no_text() -> None:
    one = summarizer()
    pair = one.group(["a", "b"])
    key = one.key("verdel", pair)
    assert key == one.key("verdel", one.group(["b", "a"]))
    others = [one.key("verdel", one.group(texts)) for texts in (["a"], ["a", "b", "c"])]
    others += [one.key("kell", pair), one.key(RelationKey("verdel", ""), pair), summarizer(identity="n").key("verdel", pair)]
    others.append(Summarizer(FakeLLMService(), "m", one.limits, words, language="French").key("verdel", pair))
    assert len({key, *others}) == 7
    assert set(key) <= set("0123456789abcdef")


async def test_what_fits_is_asked_for_at_once() -> None:
    model = FakeLLMService(counting())
    asked, store, fact = summarizer(model), Kept(), entity("it is long", "it is <b>wide</b>\nand deep")
    text = await asked.summary(fact, asked.group([fragment.text for fragment in fact.fragments]), store)
    assert text == "Verdel 2."
    ((system, user),) = model.requests
    assert "Verdel" not in system.content
    assert user.content.startswith("Subject: Verdel\n<statements-")
    assert sorted(said([user])) == ["it is &lt;b&gt;wide&lt;/b&gt; and deep", "it is long"]
    assert [summary.text for summary in store.rows.values()] == [text]
    assert store.usage.llm_calls == 1
    again = await asked.summary(fact, asked.group([fragment.text for fragment in fact.fragments]), store)
    assert (again, model.calls) == (text, 1)


async def test_map_and_reduce_ask_again_only_for_what_is_new() -> None:
    model = FakeLLMService(counting())
    asked, store = summarizer(model, context_size=20, max_tokens=4), Kept()
    texts = [f"statement {n} of the river Verdel" for n in range(24)]
    group = asked.group(texts)
    below = [part for part in group.all() if part is not group]
    assert len(below) > 4
    await asked.summary(entity(*texts), group, store)
    assert model.calls == len(store.rows)
    assert all(sum(words(line) + 1 for line in said(request)) <= 20 for request in model.requests)
    before = model.calls
    more = asked.group([*texts, "one more statement of the river"])
    await asked.summary(entity(*texts), more, store)
    assert model.calls - before < len(below) / 2


async def test_a_single_short_text_is_passed_on_as_it_is() -> None:
    model = FakeLLMService(counting())
    asked = summarizer(model, context_size=6, max_tokens=3)
    texts = ["alone in its part", "b b b b b"]
    group = asked.group(texts)
    assert len(group.parts) == 2
    long = FakeLLMService(counting())
    asked = Summarizer(long, "m", SummaryLimits(2, 5, 6, 4), words)
    assert await asked.summary(entity(*texts), group, Kept()) == "Verdel 2."
    assert [sorted(said(request)) for request in long.requests] == [sorted(texts)]


async def test_the_two_ends_of_a_relation_are_its_name() -> None:
    model = FakeLLMService(counting())
    asked = summarizer(model)
    relation = Relation(
        RelationKey("kell", "verdel"), "Kell", "Verdel", fragments=(Fragment("c", "rises"), Fragment("d", "ends"))
    )
    await asked.summary(relation, asked.group(["rises", "ends"]), Kept())
    assert model.requests[0][-1].content.startswith("Subject: Kell – Verdel\n")


@pytest.mark.parametrize("reply", ["I'm sorry, but I cannot help with that.", " … ", "<statements-00>\n- a\n</statements-00>"])
async def test_what_is_no_summary_is_not_kept_and_still_counted(reply: str) -> None:
    asked, store = summarizer(FakeLLMService([reply])), Kept()
    with pytest.raises(BadResponse):
        await asked.summary(entity("a", "b"), asked.group(["a", "b"]), store)
    assert store.rows == {}
    assert store.usage.llm_calls == 1


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("The Verdel is a river.", "The Verdel is a river."),
        ("```text\nThe Verdel is a river.\n```", "The Verdel is a river."),
        ("**Summary:** The Verdel is a river.", "The Verdel is a river."),
        ("The  Verdel\tis\n\n\na river.\x00", "The Verdel is\na river."),
        ("It rises &lt;here&gt;.", "It rises <here>."),
        ("Je suis désolé, je ne peux pas.", ""),
        ("As an AI language model, I have no access.", ""),
        ("There is no information in the statements.", ""),
        ("", ""),
        ("One two three. Four five six. Seven eight nine ten.", "One two three. Four five six."),
        ("a b c d e f g h i j k l", "a b c d e f g h"),
    ],
)
def test_a_reply_as_it_is_kept(reply: str, kept: str) -> None:
    assert readable_summary(reply, "Verdel", 8, words) == kept


def test_a_name_that_reads_like_a_refusal_is_a_name() -> None:
    assert readable_summary("I Can't Stay is a song.", "I Can't Stay", 99, words) == "I Can't Stay is a song."
    assert readable_summary("I can't stay here.", "Verdel", 99, words) == ""


def test_the_last_sentence_of_a_reply_that_was_cut_off_is_not_trusted() -> None:
    assert readable_summary("It is a river. It rises in the", "Verdel", 99, words, cut=True) == "It is a river."
    assert readable_summary("It rises in the", "Verdel", 99, words, cut=True) == "It rises in the"
