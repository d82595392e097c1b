"""Pages agree with the program and with each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from easy_knowledge_retriever.retrieval.registry import STRATEGIES
from easy_knowledge_retriever.storages import STORAGES
from scripts import reference
from tests.docs.blocks import pages
from tests.style.source import PACKAGE, ROOT, relative, tree

README = (ROOT / "README.md").read_text(encoding="utf-8")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.PAGES[name](), "run: python scripts/reference.py"


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            lost.append(target)
    assert lost == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "demo"}
    assert listed == written


def _table(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table after a heading, without its head."""
    _, _, after = text.partition(heading)
    lines = re.search(r"(?:^\|.*\n)+", after, flags=re.MULTILINE)
    assert lines
    rows = [[cell.strip().strip("`") for cell in line.strip("| \n").split("|")] for line in lines.group().splitlines()]
    return rows[2:]


@pytest.mark.parametrize(("page", "heading"), [("README.md", "## Modes"), ("docs/concepts/modes.md", "# Modes")])
def test_the_modes_of_a_table_are_those_of_the_program(page: str, heading: str) -> None:
    rows = _table((ROOT / page).read_text(encoding="utf-8"), heading)
    assert {row[0] for row in rows} == set(STRATEGIES)


def test_the_mode_table_names_the_classes() -> None:
    rows = _table((ROOT / "docs" / "concepts" / "modes.md").read_text(encoding="utf-8"), "# Modes")
    assert {row[0]: row[1] for row in rows} == {mode: strategy.__name__ for mode, strategy in STRATEGIES.items()}


def test_the_storages_of_the_readme_are_those_of_the_program() -> None:
    rows = _table(README, "## Storages")
    named = {name for row in rows for cell in row[1:] for name in re.findall(r"\w+Storage", cell)}
    assert named == set(STORAGES)


def test_the_environment_page_lists_what_is_read() -> None:
    strings = {node.value for node in ast.walk(tree(PACKAGE / "settings.py")) if isinstance(node, ast.Constant)}
    read = {
        text
        for text in strings
        if isinstance(text, str) and re.fullmatch(r"(EKR|OPENAI|XDG|AZURE|POSTGRES|MILVUS|NEO4J)_[A-Z_]+", text)
    }
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z0-9_]+)`", page, flags=re.MULTILINE)) == read


def test_the_changelog_has_an_unreleased_part() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[Unreleased\]\n\n### (Added|Changed|Fixed|Removed)", text, flags=re.MULTILINE)
