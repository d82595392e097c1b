"""What a real, small model wrote is read: its records, its citations, its refusal."""

from __future__ import annotations

from easy_knowledge_retriever.operations.citation_markers import markers_in
from easy_knowledge_retriever.operations.extraction_json import parse_reply
from evaluation.smoke_local_model import QUESTIONS, replies_in
from tests.style.source import ROOT

RECORDING = ROOT / "evaluation" / "recordings" / "local_model.jsonl"


def test_the_replies_of_a_small_model_are_read() -> None:
    replies = replies_in(RECORDING)
    extractions = [reply for reply in replies if reply.startswith("E |")]
    answers = [reply for reply in replies if not reply.startswith("E |")]
    assert len(answers) == len(QUESTIONS)
    assert extractions
    for reply in extractions:
        assert len(parse_reply(reply).entities) >= 2
    cited = [[one.number for marker in markers_in(answer, ["", ""]) for one in marker.cited] for answer in answers]
    assert cited == [[2], [1], [1], []]
    assert answers[-1] == "The documents do not cover this question."


def test_a_recording_holds_no_key_and_no_question() -> None:
    text = RECORDING.read_text(encoding="utf-8")
    assert not [canary for canary in ("authorization", "Bearer", *QUESTIONS) if canary in text]
