"""Names: no bags for leftovers, one word a thing, nothing of the machine a file was written on."""

from __future__ import annotations

import ast
import re

import pytest

from tests.style.source import modules, relative, text_files, tree

BAGS = frozenset({"utils", "util", "common", "helpers", "helper", "manager", "managers", "misc", "core", "stuff", "tools"})
SYNONYMS = frozenset(
    {
        "node_datas",
        "node_data",
        "edge_datas",
        "edge_data",
        "src_tgt",
        "hashing_kv",
        "inst",
        "knwoledge_graph_inst",
        "vdb",
        "tmp_data",
    }
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+|tmp/[a-z])[/\w-]*")
REGISTRY_HOSTS = re.compile(r"(?:pypi|npmjs|pythonhosted|conda|anaconda|jfrog|artifactory|nexus)\.(?:org|com|io)", re.IGNORECASE)
SECRETS = re.compile(r"sk-[A-Za-z0-9]{16,}|ghp_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|BEGIN (?:RSA |EC )?PRIVATE KEY")
THIS_FILE = "tests/style/test_names.py"


def test_a_module_has_a_role() -> None:
    bags = [relative(path) for path in modules() if BAGS & {path.stem, *path.parent.parts[-2:]}]
    assert bags == []


def test_no_synonym_of_a_glossary_word() -> None:
    found = []
    for path in modules():
        for node in ast.walk(tree(path)):
            name = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr"}.get(type(node))
            if name and getattr(node, name) in SYNONYMS:
                found.append(f"{relative(path)}:{getattr(node, 'lineno', 0)} {getattr(node, name)}")
    assert found == []


@pytest.mark.parametrize(
    ("what", "pattern"), [("machine path", MACHINE_PATHS), ("registry host", REGISTRY_HOSTS), ("secret", SECRETS)]
)
def test_no_file_holds(what: str, pattern: re.Pattern[str]) -> None:
    found = [
        f"{relative(path)}: {what} {match.group()!r}"
        for path, text in text_files()
        if relative(path) != THIS_FILE and "/data/" not in relative(path)
        for match in pattern.finditer(text)
    ]
    assert found == []
