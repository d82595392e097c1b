"""Checks the check of citations: ``python -m evaluation.citations --data DIR``.

Three tables. *Answers*: the 20 answerable questions on the EU AI Act, in English and French, asked of the French Official
Journal (one PDF) and of the English text, and answered by scripted models: one copies sentences of the context and cites
them, one copies them from the gold article, one lies in eight ways. *Claims*: sentences of the question sets, true and
falsified, and how many the check accepts. *Paraphrases*: the written answers that came with the questions.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from easy_knowledge_retriever import EasyKnowledgeRetriever, QueryParam, QueryResult
from easy_knowledge_retriever.llm.base import EmbeddingService, Message
from easy_knowledge_retriever.operations.citation_check import Checking, check_citations
from easy_knowledge_retriever.testing.fakes import FakeLLMService
from easy_knowledge_retriever.testing.replies import Chat, Lie, assistant, copying, lies
from easy_knowledge_retriever.text.sentences import sentences
from easy_knowledge_retriever.types import Citation
from evaluation.bases import Bench, embedding_service, opened_base
from evaluation.claims import FALSE_KINDS, TRUE_KINDS, Sample, parallel_samples, passage, samples
from evaluation.datasets import Dataset, Question, load_dataset

__all__ = ["Tally", "flagged", "main", "tally_copies"]

PDF = "regulation/ai_act/ai_act_fr.pdf"
_PASSAGE = re.compile(r'<passage id="\d+" document="([^"]*)"[^>]*>\n(.*?)\n</passage>', re.DOTALL)
_CONTEXT = re.compile(r"(<context-\w+>\n).*(\n</context-\w+>)", re.DOTALL)
_PIECE = 80
"""Letters that tell where a longer text is from."""
_SHARE = 0.3
"""Share of its pieces that a passage of an article has in it: a passage may begin in the article before."""
_LEAST = 30
"""Letters of the shortest text that tells it."""
Reply = Callable[[Chat], str]


@dataclass(slots=True)
class Tally:
    """Counts over the answers of one model."""

    answers: int = 0
    citations: int = 0
    verified: int = 0
    claims: int = 0
    supported: int = 0
    gold_found: int = 0
    """Answers whose gold article was in the context."""
    gold_cited: int = 0
    """Citations of the gold article."""
    right_page: int = 0
    """Those of them on a gold page."""
    wrong_pages: int = 0
    removed: int = 0
    seconds: float = 0.0
    lies: Counter[str] = field(default_factory=Counter)
    flagged: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


class Teller:
    """A model that lies, and what it said."""

    def __init__(self) -> None:
        self.told: tuple[Lie, ...] = ()

    def all(self, chat: Chat) -> str:
        """Every lie at once."""
        self.told = lies(chat)
        return " ".join(lie.text for lie in self.told)


class Scripted:
    """A model whose answers a function writes, for one question at a time."""

    def __init__(self) -> None:
        self.reply: Reply = assistant
        self.service = FakeLLMService(self._answer)

    def _answer(self, messages: Sequence[Message]) -> str:
        chat = Chat("scripted", tuple({"role": m.role, "content": m.content} for m in messages), {})
        return self.reply(chat) if "<context-" in chat.prompt else assistant(chat)


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold articles of a question: by their documents, or by their wording and pages in the French Official Journal."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    pages: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, question: Question, french: Dataset) -> Gold:
        """Those of a question, with the text of the French units."""
        texts = {item.id: letters(item.text) for item in french.items}
        return cls(question.gold_ids, tuple(texts[gold_id] for gold_id in question.gold_ids), question.gold_pages)

    def said_in(self, file_path: str, text: str, *, whole: bool = False) -> int | None:
        """Position of the gold article that a passage belongs to, or a quote, which must be in it as a whole."""
        name = file_path.removesuffix(".md")
        if name in self.ids:
            return self.ids.index(name)
        plain = letters(text)
        if not file_path.endswith(".pdf") or len(plain) < _LEAST:
            return None
        parts = [plain] if whole else [plain[at : at + _PIECE] for at in range(0, max(1, len(plain) - _PIECE), _PIECE)]
        shares = [sum(part in gold for part in parts) / len(parts) for gold in self.texts]
        best = max(shares, default=0.0)
        return shares.index(best) if best >= (1.0 if whole else _SHARE) else None


def letters(text: str) -> str:
    """Only letters and digits, in lower case: the same however a line is broken."""
    return "".join(character for character in text.casefold() if character.isalnum())


def gold_only(gold: Gold) -> Reply:
    """A model that copies from the passages of the gold articles, and otherwise from all."""

    def reply(chat: Chat) -> str:
        found = [
            match[0]
            for match in _PASSAGE.finditer(chat.prompt)
            if gold.said_in(html.unescape(match[1]), html.unescape(match[2])) is not None
        ]
        if not found:
            return copying(chat)
        prompt = _CONTEXT.sub(lambda match: match[1] + "\n".join(found) + match[2], chat.prompt)
        return copying(Chat(chat.model, ({"role": "user", "content": prompt},), chat.body))

    return reply


def tally_copies(tally: Tally, gold: Gold, result: QueryResult) -> None:
    """Counts an answer of a model that copies."""
    tally.answers += 1
    tally.citations += len(result.citations)
    tally.verified += sum(c.supported and _verbatim(c, result.content) for c in result.citations)
    tally.claims += len(result.claims)
    tally.supported += sum(claim.supported for claim in result.claims)
    counts = result.metadata["counts"]
    tally.wrong_pages += counts["wrong_pages"]  # type: ignore[index,operator]
    tally.removed += counts["removed_citations"]  # type: ignore[index,operator]
    tally.gold_found += any(gold.said_in(str(c["file_path"]), str(c["content"])) is not None for c in result.chunks)
    for citation in result.citations:
        at = gold.said_in(citation.file_path, citation.quote, whole=True)
        if at is not None:
            tally.gold_cited += 1
            right = citation.page in gold.pages[at] if citation.file_path.endswith(".pdf") else citation.page is None
            tally.right_page += right
            if not right:
                tally.missed.append(f"page {citation.page} instead of {gold.pages[at]}: {citation.quote[:100]}")


def _verbatim(citation: Citation, answer: str) -> bool:
    """Whether what the citation quotes is what the answer says."""
    return " ".join(citation.quote.split()).rstrip(".") in " ".join(answer.split())


def flagged(lie: Lie, result: QueryResult) -> bool:
    """Whether an answer that consists of one lie was found out."""
    counts = result.metadata["counts"]
    if lie.kind == "page":
        return "4711" not in result.content and counts["wrong_pages"] == 1  # type: ignore[index]
    if lie.kind == "id":
        return "[99]" not in result.content and counts["removed_citations"] == 1 and not _all_supported(result)  # type: ignore[index]
    return not _all_supported(result)


def _all_supported(result: QueryResult) -> bool:
    return bool(result.claims) and all(claim.supported for claim in result.claims)


async def _ask(rag: EasyKnowledgeRetriever, model: Scripted, question: Question, reply: Reply, tally: Tally) -> QueryResult:
    model.reply = reply
    result = await rag.aquery(question.text, QueryParam(mode="hybrid_mix"))
    tally.seconds += result.timings["answer"]
    return result


async def _answers(
    rag: EasyKnowledgeRetriever, model: Scripted, questions: Sequence[Question], french: Dataset
) -> tuple[Tally, Tally, Tally]:
    copied, from_gold, lied = Tally(), Tally(), Tally()
    for question in questions:
        gold = Gold.of(question, french)
        tally_copies(copied, gold, await _ask(rag, model, question, copying, copied))
        tally_copies(from_gold, gold, await _ask(rag, model, question, gold_only(gold), from_gold))
        teller = Teller()
        await _ask(rag, model, question, teller.all, lied)
        lied.answers += 1
        for lie in teller.told:
            result = await _ask(rag, model, question, lambda chat, lie=lie: lie.text, lied)  # type: ignore[misc]
            lied.lies[lie.kind] += 1
            if flagged(lie, result):
                lied.flagged[lie.kind] += 1
            else:
                lied.missed.append(f"{lie.kind}: {lie.text}")
    return copied, from_gold, lied


def _print_answers(label: str, copied: Tally, gold: Tally, lied: Tally) -> None:
    for name, tally in (("copying", copied), ("copying gold", gold)):
        print(
            f"{label:<22}{name:<14}{tally.answers:>5}{f'{tally.verified} of {tally.citations}':>14}"
            f"{f'{tally.supported} of {tally.claims}':>14}{tally.gold_found:>7}{f'{tally.right_page} of {tally.gold_cited}':>13}"
            f"{tally.wrong_pages:>7}{1000 * tally.seconds / max(tally.answers, 1):>8.0f}"
        )
    kinds = ", ".join(f"{kind} {lied.flagged[kind]}/{lied.lies[kind]}" for kind in sorted(lied.lies))
    print(f"{label:<22}{'lying':<14}{lied.answers:>5} lies flagged: {lied.flagged.total()} of {lied.lies.total()} ({kinds})")
    for missed in (*copied.missed, *gold.missed, *lied.missed):
        print(f"    missed: {missed}", flush=True)


async def answers(bench: Bench, data: Path) -> None:
    """The table of answers."""
    english, french = load_dataset(data, "ai_act-en"), load_dataset(data, "ai_act-fr")
    print("\nAnswers of scripted models (hybrid_mix)")
    print(
        f"{'base, asked in':<22}{'model':<14}{'n':>5}{'verified':>14}{'supported':>14}{'gold':>7}{'gold pages':>13}"
        f"{'wrong':>7}{'ms':>8}"
    )
    folder = bench.folder / "-".join(("ai_act-pdf", bench.model or "default"))
    async with EasyKnowledgeRetriever(working_dir=str(folder), embedding_service=embedding_service(bench)) as rag:
        await rag.ingest(data / PDF, name=Path(PDF).name)
    async with opened_base(bench, "ai_act-en", english.items) as rag:
        units = str(rag.settings.working_dir)
    for label, base, dataset in (
        ("pdf fr, French", str(folder), french),
        ("pdf fr, English", str(folder), english),
        ("units en, English", units, english),
        ("units en, French", units, french),
    ):
        model = Scripted()
        async with EasyKnowledgeRetriever(
            working_dir=base, embedding_service=embedding_service(bench), llm_service=model.service, enable_llm_cache=False
        ) as rag:
            _print_answers(label, *await _answers(rag, model, dataset.answerable, french))


async def _accepted(made: Iterable[Sample], embedding: EmbeddingService) -> dict[str, tuple[Counter[str], int]]:
    """For each kind how often it was accepted by words and by embedding (and refused, by reason), and how many there were."""
    rows: dict[str, tuple[Counter[str], int]] = {}
    for sample in made:
        checked = await check_citations(f"{sample.claim} [1]", sample.passages, (), Checking(embedding))
        counts, number = rows.get(sample.kind, (Counter[str](), 0))
        failing = next((claim for claim in checked.claims if not claim.supported), None)
        by = "embedding" if any(claim.judged_by == "embedding" for claim in checked.claims) else "words"
        counts[f"refused: {failing.reason}" if failing else by] += 1
        rows[sample.kind] = (counts, number + 1)
    return rows


def _print_accepted(label: str, rows: dict[str, tuple[Counter[str], int]], kinds: Sequence[str], truth: str) -> None:
    for kind in kinds:
        if kind in rows:
            counts, number = rows[kind]
            refused = ", ".join(f"{k.removeprefix('refused: ')} {n}" for k, n in counts.most_common() if k.startswith("refused"))
            print(
                f"{label:<14}{truth:<7}{kind:<24}{number:>5}{100 * counts['words'] / number:>9.1f}"
                f"{100 * counts['embedding'] / number:>11.1f}  {refused}",
                flush=True,
            )


async def claims(bench: Bench, data: Path, count: int) -> None:
    """The table of claims."""
    embedding = embedding_service(bench)
    print("\nClaims accepted, per cent")
    print(f"{'set':<14}{'is':<7}{'made by':<24}{'n':>5}{'by words':>9}{'embedding':>11}  refused because of")
    for name in ("ai_act-en", "ai_act-fr", "piaf", "2wiki"):
        rows = await _accepted(samples(load_dataset(data, name), count), embedding)
        _print_accepted(name, rows, TRUE_KINDS, "true")
        _print_accepted(name, rows, FALSE_KINDS, "false")
    english, french = load_dataset(data, "ai_act-en"), load_dataset(data, "ai_act-fr")
    for label, one, other in (("en about fr", english, french), ("fr about en", french, english)):
        rows = await _accepted(parallel_samples(one, other, count), embedding)
        _print_accepted(label, rows, ("translated",), "true")
        _print_accepted(label, rows, ("its sentence gone", "of another passage"), "false")
    await embedding.aclose()


async def paraphrases(bench: Bench, data: Path) -> None:
    """The table of written answers: each sentence cites its gold articles, or those of another question."""
    embedding = embedding_service(bench)
    dataset = load_dataset(data, "ai_act-en")
    print("\nSentences of the written answers accepted (whole articles as passages)")
    for label, own in (("of their articles", True), ("of other articles", False)):
        rows = await _accepted(_written(dataset, own=own), embedding)
        _print_accepted("ai_act-en", rows, ("written",), "true" if own else "false")
        print(f"    ({label})")
    await embedding.aclose()


def _written(dataset: Dataset, *, own: bool) -> Iterable[Sample]:
    items = {item.id: item for item in dataset.items}
    asked = dataset.answerable
    for at, question in enumerate(asked):
        others = [one.gold_ids for one in (*asked[at:], *asked[:at]) if not set(one.gold_ids) & set(question.gold_ids)]
        gold = question.gold_ids if own else others[0]
        given = tuple(passage(n, items[gold_id].title, items[gold_id].text) for n, gold_id in enumerate(gold, start=1))
        cited = "".join(f"[{one.number}]" for one in given[1:])
        for start, end in sentences(question.answer):
            if end - start > 30:
                yield Sample("written", f"{question.answer[start:end]} {cited}", given)


async def run(args: argparse.Namespace) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(args.base or Path(temporary), args.model, args.vectors)
        began = time.perf_counter()
        if "answers" in args.parts:
            await answers(bench, args.data)
        if "claims" in args.parts:
            await claims(bench, args.data, args.count)
        if "paraphrases" in args.parts:
            await paraphrases(bench, args.data)
        sys.stderr.write(f"{time.perf_counter() - began:.0f} s\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parts = ("answers", "claims", "paraphrases")
    parser = argparse.ArgumentParser(prog="python -m evaluation.citations", description="Checks the check of citations.")
    parser.add_argument("--data", type=Path, required=True, help="folder with the question sets")
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--count", type=int, default=100, help="passages that claims are made of, in each set")
    parser.add_argument("--model", help="local embedding model; the default one if not given")
    parser.add_argument("--base", type=Path, help="folder that keeps the bases between runs; a temporary one if not given")
    parser.add_argument("--vectors", type=Path, help="folder that keeps embeddings between runs")
    asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
