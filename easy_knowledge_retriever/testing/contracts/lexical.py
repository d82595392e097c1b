"""What a BM25 storage promises."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from easy_knowledge_retriever.kg.lexical_storage.base import LexicalStorage
from easy_knowledge_retriever.testing.contracts.storage import StorageContract
from easy_knowledge_retriever.types import LexicalRecord, SearchFilter

__all__ = ["LexicalStorageContract"]


def _record(row: str, text: str, heading: str = "", document: str = "", collection: str = "") -> LexicalRecord:
    fields = {"heading": tuple(heading.split()), "text": tuple(text.split())}
    return LexicalRecord(row, fields, document, collection)


PETS = (
    _record("1", "cat dog", "cat", "d1", "tame"),
    _record("2", "dog dog bird", "", "d2", "tame"),
    _record("3", "fish", "", "d3", "wild"),
)
"""Lengths 3, 3 and 1, so 7/3 on average; idf(cat) = ln(1 + 2.5/1.5) = 0.980829, idf(dog) = ln(1 + 1.5/2.5) = 0.470004."""
CAT = 0.980829
DOG = 0.470004


class LexicalStorageContract(StorageContract[LexicalStorage]):
    """Suite of :class:`LexicalStorage`."""

    async def write(self, storage: LexicalStorage, mark: str) -> None:
        await storage.put_many([_record(mark, "word")])

    async def marks(self, storage: LexicalStorage) -> set[str]:
        return {hit.id for hit in await storage.search(["word"], 100)} & set(await storage.ids())

    async def test_scores_worked_out_by_hand(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        # tf 2, length 3: 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / (7/3))) = 5 / 3.821429
        assert await self._scores(storage, "cat") == {"1": pytest.approx(CAT * 5 / 3.821429, rel=1e-4)}
        # row 1: tf 1, 2.5 / 2.821429; row 2: tf 2, 5 / 3.821429
        assert await self._scores(storage, "dog") == {
            "2": pytest.approx(DOG * 5 / 3.821429, rel=1e-4),
            "1": pytest.approx(DOG * 2.5 / 2.821429, rel=1e-4),
        }

    async def test_the_score_of_a_query_is_the_sum_over_its_terms(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        hits = await storage.search(["cat", "dog", "absent"], 10)
        assert [hit.id for hit in hits] == ["1", "2"]
        assert hits[0].score == pytest.approx(CAT * 5 / 3.821429 + DOG * 2.5 / 2.821429, rel=1e-4)
        assert hits[1].score == pytest.approx(DOG * 5 / 3.821429, rel=1e-4)
        assert all(type(hit.score) is float for hit in hits)

    async def test_a_repeated_query_term_counts_once(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert await self._scores(storage, "cat", "cat") == await self._scores(storage, "cat")

    async def test_k1_is_the_saturation_of_the_term_frequency(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert await self._scores(storage, "cat", k1=0.0) == {"1": pytest.approx(CAT, rel=1e-4)}
        # tf 2, so 2 * 3 above and 2 + 2 * 1.214286 below
        assert await self._scores(storage, "cat", k1=2.0) == {"1": pytest.approx(CAT * 6 / 4.428571, rel=1e-4)}

    async def test_b_is_the_strength_of_the_length_normalisation(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert await self._scores(storage, "cat", b=0.0) == {"1": pytest.approx(CAT * 5 / 3.5, rel=1e-4)}
        # 1.5 * 3 / (7/3) = 1.928571
        assert await self._scores(storage, "cat", b=1.0) == {"1": pytest.approx(CAT * 5 / 3.928571, rel=1e-4)}

    async def test_a_field_weight_multiplies_frequencies_and_lengths(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        # tf 3 + 1 = 4, length 3 + 2 = 5, average (5 + 3 + 1) / 3 = 3: 4 * 2.5 / (4 + 1.5 * 1.5) = 1.6
        heavy = await self._scores(storage, "cat", field_weights={"heading": 3.0, "text": 1.0})
        assert heavy == {"1": pytest.approx(CAT * 1.6, rel=1e-4)}
        # tf 1, length 2, average 2: 2.5 / 2.5
        without = await self._scores(storage, "cat", field_weights={"heading": 0.0})
        assert without == {"1": pytest.approx(CAT, rel=1e-4)}

    async def test_a_field_without_a_weight_counts_once(self, storage: LexicalStorage) -> None:
        await storage.put_many([LexicalRecord("1", {"note": ("cat",)})])
        # One row: ln(1 + 0.5 / 1.5) = 0.287682, at average length
        assert await self._scores(storage, "cat", field_weights={"text": 5.0}) == {"1": pytest.approx(0.287682, rel=1e-4)}

    async def test_a_term_in_a_field_of_no_weight_finds_nothing(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record("1", "text", "title")])
        assert await self._scores(storage, "title", field_weights={"heading": 0.0}) == {}

    async def test_a_term_in_every_row_scores_low_but_above_nothing(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record(row, "the") for row in "cab"])
        hits = await storage.search(["the"], 10)
        assert [hit.id for hit in hits] == ["a", "b", "c"]
        # ln(1 + 0.5 / 3.5) = 0.133531
        assert [hit.score for hit in hits] == pytest.approx([0.133531] * 3, rel=1e-4)

    async def test_ties_are_in_order_of_id_also_where_top_k_cuts(self, storage: LexicalStorage) -> None:
        names = [f"{n:03}" for n in range(50)]
        random.Random(2).shuffle(names)
        await storage.put_many([_record(name, "same words here") for name in names])
        for top_k in (1, 7, 50):
            assert [hit.id for hit in await storage.search(["words"], top_k)] == sorted(names)[:top_k]

    async def test_no_more_than_top_k(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert [hit.id for hit in await storage.search(["dog"], 1)] == ["2"]
        assert await storage.search(["dog"], 0) == []

    async def test_nothing_asked_nothing_given(self, storage: LexicalStorage) -> None:
        assert await storage.search(["cat"], 10) == []
        await storage.put_many([])
        await storage.delete_many([])
        assert await storage.document_frequencies([]) == {}
        assert await storage.ids() == []
        assert await storage.count() == 0
        await storage.put_many(PETS)
        assert await storage.search([], 10) == []
        assert await storage.search(["absent"], 10) == []

    async def test_a_row_without_terms_counts_but_is_not_found(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record("0", "")])
        assert await storage.search(["cat"], 10) == []
        await storage.put_many([_record("1", "cat")])
        # N 2, n 1: ln(1 + 1.5 / 1.5) = 0.693147; length 1, average 0.5: 2.5 / (1 + 1.5 * 1.75)
        assert await self._scores(storage, "cat") == {"1": pytest.approx(0.693147 * 2.5 / 3.625, rel=1e-4)}
        assert await storage.count() == 2

    async def test_a_filter_hides_rows_and_changes_no_score(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        whole = await self._scores(storage, "dog", "cat")
        only = SearchFilter(document_ids=frozenset({"d2", "d3"}))
        assert {hit.id: hit.score for hit in await storage.search(["dog", "cat"], 10, only)} == {"2": whole["2"]}
        tame = SearchFilter(collections=frozenset({"tame"}))
        assert {hit.id: hit.score for hit in await storage.search(["dog", "fish"], 10, tame)}.keys() == {"1", "2"}
        both = SearchFilter(collections=frozenset({"tame"}), document_ids=frozenset({"d1", "d3"}))
        assert [hit.id for hit in await storage.search(["dog", "fish"], 10, both)] == ["1"]

    async def test_an_empty_set_means_nothing_and_none_means_all(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert await storage.search(["dog"], 10, SearchFilter(document_ids=frozenset())) == []
        assert await storage.search(["dog"], 10, SearchFilter(collections=frozenset())) == []
        assert len(await storage.search(["dog"], 10, SearchFilter())) == 2

    async def test_a_filter_comes_before_top_k(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record(f"{n:03}", "cat cat", document="many") for n in range(100)])
        await storage.put_many([_record("z", "cat and much else", document="one")])
        assert [hit.id for hit in await storage.search(["cat"], 1, SearchFilter(document_ids=frozenset({"one"})))] == ["z"]

    async def test_a_row_that_holds_a_term_only_where_nothing_counts_is_no_hit(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record("1", "", "cat"), _record("2", "cat")])
        assert set(await self._scores(storage, "cat", k1=0.0, b=1.0, field_weights={"heading": 0.0})) == {"2"}

    async def test_document_frequencies_count_rows(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        assert await storage.document_frequencies(["dog", "cat", "absent", "dog"]) == {"dog": 2, "cat": 1}

    async def test_overwriting_forgets_the_old_terms(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        await storage.put_many([_record("2", "bird", "", "d1", "tame")])
        assert await storage.count() == 3
        assert await storage.document_frequencies(["dog", "bird"]) == {"dog": 1, "bird": 1}
        assert [hit.id for hit in await storage.search(["bird"], 10, SearchFilter(document_ids=frozenset({"d1"})))] == ["2"]

    async def test_the_last_record_of_an_id_stays(self, storage: LexicalStorage) -> None:
        await storage.put_many([_record("1", "cat"), _record("1", "dog")])
        assert await storage.document_frequencies(["cat", "dog"]) == {"dog": 1}

    async def test_deleting_takes_what_exists(self, storage: LexicalStorage) -> None:
        await storage.put_many(PETS)
        await storage.delete_many(["1", "absent", "1"])
        assert await storage.ids() == ["2", "3"]
        assert await storage.count() == 2
        assert await storage.document_frequencies(["cat", "dog"]) == {"dog": 1}
        # N 2, n 1; tf 2, length 3, average 2: 5 / (2 + 1.5 * 1.375)
        assert await self._scores(storage, "dog") == {"2": pytest.approx(0.693147 * 5 / 4.0625, rel=1e-4)}
        await storage.delete_many(["2", "3"])
        assert await storage.search(["dog"], 10) == []

    async def test_any_text_can_be_a_term(self, storage: LexicalStorage) -> None:
        odd = ["索引", "l'état", 'a"b', "%", "_", "NULL", "\u00a0", "🙂", "a b"]
        await storage.put_many([LexicalRecord(f"{n}", {"text": (term,)}) for n, term in enumerate(odd)])
        for n, term in enumerate(odd):
            assert [hit.id for hit in await storage.search([term], 10)] == [f"{n}"]

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_changed_storage_equals_a_fresh_one(self, storage: LexicalStorage, seed: int) -> None:
        choice = random.Random(seed)
        words = [f"w{n}" for n in range(12)]
        kept: dict[str, LexicalRecord] = {}
        for _ in range(25):
            batch = [self._random_record(choice, words) for _ in range(4)]
            await storage.put_many(batch)
            kept |= {record.id: record for record in batch}
            gone = choice.sample(sorted(kept), 2)
            await storage.delete_many(gone)
            kept = {key: record for key, record in kept.items() if key not in gone}
        fresh = storage.bind("fresh", "contract")
        await fresh.open()
        await fresh.put_many(list(kept.values()))
        assert await storage.ids() == await fresh.ids() == sorted(kept)
        assert await storage.document_frequencies(words) == await fresh.document_frequencies(words)
        for terms in (words[:1], words[:5], words):
            ours, theirs = await storage.search(terms, 50), await fresh.search(terms, 50)
            assert [hit.id for hit in ours] == [hit.id for hit in theirs]
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], rel=1e-6)
        await fresh.close()

    async def test_rows_come_back_whole_after_reopening(self, tmp_path: Path) -> None:
        self._needs_persistence()
        storage = await self.opened(tmp_path)
        await storage.put_many(PETS)
        before = await storage.search(["cat", "dog"], 10, field_weights={"heading": 2.0})
        await storage.close()
        await storage.open()
        assert await storage.search(["cat", "dog"], 10, field_weights={"heading": 2.0}) == before
        assert [hit.id for hit in await storage.search(["fish"], 10, SearchFilter(collections=frozenset({"wild"})))] == ["3"]
        await storage.close()

    @staticmethod
    async def _scores(
        storage: LexicalStorage,
        *terms: str,
        k1: float = 1.5,
        b: float = 0.75,
        field_weights: dict[str, float] | None = None,
    ) -> dict[str, float]:
        return {hit.id: hit.score for hit in await storage.search(terms, 10, k1=k1, b=b, field_weights=field_weights)}

    @staticmethod
    def _random_record(choice: random.Random, words: list[str]) -> LexicalRecord:
        text, heading = choice.choices(words, k=choice.randrange(8)), choice.choices(words, k=choice.randrange(3))
        return _record(f"{choice.randrange(40)}", " ".join(text), " ".join(heading))
