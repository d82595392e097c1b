"""Tying a claim of other words, or of another language, to a sentence of the passages by the likeness of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from easy_knowledge_retriever.llm.base import EmbeddingService
from easy_knowledge_retriever.operations.alignment import Alignment, Evidence, Sentence
from easy_knowledge_retriever.operations.claim_facts import contradicts
from easy_knowledge_retriever.operations.likeness import PROBES, likeness

__all__ = ["ALIKE", "ALIKE_ACROSS", "ALIKE_GAP", "align_by_embedding"]

ALIKE = 0.75
"""Likeness from which a sentence carries a claim of its language."""
ALIKE_ACROSS = 0.65
"""The same for a claim of another language: nothing is alike there by common words."""
ALIKE_GAP = 0.6
"""The same for the stretch of a claim that its sentences hold least of: an addition to a true sentence is like nothing."""
_EMBEDDED_TEXTS = 40
"""Texts embedded for one answer, probes included: this bounds the time of a local model."""
_CANDIDATES = 8
"""Sentences compared with one claim."""


async def align_by_embedding(
    pending: Sequence[tuple[Alignment, Sequence[int]]], evidence: Evidence, embedding: EmbeddingService
) -> list[Alignment]:
    """The alignments again, decided by embeddings where words did not decide, with one call for all.

    Each claim is compared with the sentences of its passages that have most of its words; a claim beyond the number of
    texts that may be embedded stays as it is.

    Args:
        pending: What words did not settle, with the numbers of the passages it cites.
        evidence: The passages.
        embedding: Embeds claims and sentences.

    Raises:
        UpstreamError: The embedding model failed.
    """
    rows: dict[str, int] = {probe: row for row, probe in enumerate(PROBES)}
    wanted: dict[int, list[Sentence]] = {}
    for position, (alignment, numbers) in enumerate(pending):
        candidates = evidence.candidates(alignment.text, numbers, _CANDIDATES)
        texts = [alignment.text, *([alignment.gap] if alignment.gap else []), *(candidate.text for candidate in candidates)]
        if candidates and len(rows.keys() | set(texts)) <= _EMBEDDED_TEXTS:
            wanted[position] = candidates
            for text in texts:
                rows.setdefault(text, len(rows))
    found = [alignment for alignment, _ in pending]
    if not wanted:
        return found
    vectors = await embedding.embed(list(rows), "document")
    for position, candidates in wanted.items():
        alignment = found[position]
        stated = [alignment.text, alignment.gap or alignment.text]
        others = vectors[[rows[candidate.text] for candidate in candidates]]
        whole, gap = likeness(vectors[[rows[text] for text in stated]], others, vectors[: len(PROBES)])
        best = int(whole.argmax())
        found[position] = _decided(alignment, candidates[best], float(whole[best]), float(gap.max()), evidence)
    return found


def _decided(alignment: Alignment, nearest: Sentence, score: float, gap: float, evidence: Evidence) -> Alignment:
    """Supported if the nearest sentence is near enough and does not deny what is claimed."""
    number = nearest.passage.number
    same = evidence.same_language((number,))
    language = evidence.language or evidence.language_of(number)
    decided = replace(alignment, sentences=(nearest,), judged_by="embedding")
    if contradicts(alignment.text, nearest.text, language, same_language=same):
        return replace(decided, reason="negation")
    if score < (ALIKE if same else ALIKE_ACROSS) or (alignment.gap and gap < ALIKE_GAP):
        return decided
    return replace(decided, supported=True, reason="", settled=True)
