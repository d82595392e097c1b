"""The demonstration handbook is what its source says."""

from __future__ import annotations

import json
import re

import pytest

from docs.demo import make_pdf
from tests.style.source import ROOT

DATA = ROOT / "easy_knowledge_retriever" / "cli" / "data"


def test_the_pdf_in_the_package_is_made_from_the_source() -> None:
    made = make_pdf.pdf(make_pdf.SOURCE.read_text(encoding="utf-8"))
    assert (DATA / "handbook.pdf").read_bytes() == made, "run: python docs/demo/make_pdf.py"


def test_the_pdf_is_well_formed() -> None:
    raw = (DATA / "handbook.pdf").read_bytes()
    offsets = [int(line) for line in re.findall(rb"(\d{10}) 00000 n", raw)]
    assert all(raw[offset:].startswith(b"%d 0 obj" % number) for number, offset in enumerate(offsets, start=1))
    assert raw.count(b"/Type /Page /Parent") == 5


def test_a_line_never_leaves_its_column() -> None:
    lines = list(make_pdf._lines("one two three four five six seven eight nine ten", 10, 60))
    assert " ".join(lines) == "one two three four five six seven eight nine ten"
    assert all(make_pdf._measure(line, 10) <= 60 for line in lines)


def test_a_page_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        make_pdf.pdf("# Title\n\n" + "\n\n".join(["word " * 200] * 6))


def test_every_question_names_a_document_that_is_shipped() -> None:
    questions = json.loads((DATA / "questions.json").read_text(encoding="utf-8"))
    assert {item["document"] for item in questions} - {None} <= {path.name for path in DATA.iterdir()}
    assert sum(item["document"] is None for item in questions) >= 1
