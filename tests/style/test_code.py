"""Rules about the code that a syntax tree can show."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect

import pytest

from easy_knowledge_retriever import errors
from tests.style.source import PACKAGE, ROOT, imports, modules, relative, tree

IMPLEMENTATIONS = ("_impl", "llm.service", "reranker.openai")
VENDORS = {
    "openai": "llm",
    "onnxruntime": "llm",
    "tokenizers": "llm",
    "onnx": "llm",
    "tiktoken": "text",
    "Stemmer": "text",
    "liteparse": "parsing",
    "nano_vectordb": "kg",
    "networkx": "kg",
    "rank_bm25": "kg",
    "tenacity": "endpoints",
    "httpx": "endpoints",
    "httpx2": "endpoints",
    "typer": "cli",
    "rich": "cli",
}
"""Package and the folders whose adapter may import it."""
MISUSE = frozenset({"ValueError", "TypeError", "KeyError", "IndexError", "RuntimeError", "AttributeError", "StopIteration"})
EVALUATING = frozenset({"eval", "exec", "compile", "__import__"})
REVIVING = frozenset({"pickle", "marshal", "shelve", "dill", "joblib", "code", "codeop"})
VALUES = ("types", "query", "settings", "events")


@pytest.mark.parametrize("module", VALUES)
def test_a_value_is_frozen(module: str) -> None:
    loaded = importlib.import_module(f"easy_knowledge_retriever.{module}")
    mutable = [
        name
        for name, value in inspect.getmembers(loaded, dataclasses.is_dataclass)
        if isinstance(value, type) and value.__module__ == loaded.__name__ and not value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ]
    assert mutable == []


def test_only_the_command_prints() -> None:
    printing = [
        f"{relative(path)}:{node.lineno}"
        for path in modules()
        if not path.is_relative_to(PACKAGE / "cli")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_no_text_becomes_code() -> None:
    """What a model or a document says is never evaluated, not even as a literal, nor revived as an object."""
    found = []
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                called = node.func.attr if isinstance(node.func, ast.Attribute) else name
                if name in EVALUATING or called == "literal_eval":
                    found.append(f"{relative(path)}:{node.lineno} {called}")
        found += [f"{relative(path)}:{line} {name}" for name, line in imports(path) if name.partition(".")[0] in REVIVING]
    assert found == []


def test_only_settings_reads_the_environment() -> None:
    reading = [
        f"{relative(path)}:{node.lineno}"
        for path in modules()
        if path != PACKAGE / "settings.py"
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"})
        or (isinstance(node, ast.keyword) and node.arg == "envvar")
    ]
    assert reading == []


def test_a_storage_stores() -> None:
    reaching = [
        f"{relative(path)}:{line} {name}"
        for path in modules()
        if path.stem.endswith("_impl")
        for name, line in imports(path)
        if name.startswith(
            ("easy_knowledge_retriever.llm", "easy_knowledge_retriever.operations", "easy_knowledge_retriever.reranker")
        )
    ]
    assert reaching == []


def test_the_flows_import_no_implementation() -> None:
    reaching = [
        f"{relative(path)}:{line} {name}"
        for path in modules("operations", "retrieval", "ingestion")
        for name, line in imports(path)
        if name.startswith("easy_knowledge_retriever.") and name.endswith(IMPLEMENTATIONS)
    ]
    assert reaching == []


def test_a_vendor_is_imported_where_its_adapter_lives() -> None:
    elsewhere = [
        f"{relative(path)}:{line} {name}"
        for path in modules()
        for name, line in imports(path)
        if (homes := VENDORS.get(name.partition(".")[0]))
        and path.relative_to(PACKAGE).parts[0] not in (*homes.split("|"), "testing")
    ]
    assert elsewhere == []


def test_every_raised_class_is_ours_or_tells_of_misuse() -> None:
    ours = {name for name in dir(errors) if inspect.isclass(getattr(errors, name))}
    strangers = []
    for path in modules():
        own = {node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                name = node.exc.func.id
                builtin = getattr(builtins, name, None)
                is_exception = isinstance(builtin, type) and issubclass(builtin, BaseException)
                if is_exception and name not in MISUSE | ours | own and not path.is_relative_to(PACKAGE / "testing"):
                    strangers.append(f"{relative(path)}:{node.lineno} {name}")
    assert strangers == []


def test_every_storage_inherits_the_contract_suite() -> None:
    contracts = ROOT / "tests" / "contracts"
    held = {name for path in contracts.rglob("test_*.py") for name, _ in imports(path)}
    implementations = [path for path in modules("kg") if path.stem.endswith("_impl")]
    unheld = [relative(path) for path in implementations if ".".join(path.relative_to(ROOT).with_suffix("").parts) not in held]
    assert unheld == []


def test_no_structure_is_joined_to_be_split_again() -> None:
    """A module that joins and splits on the same constant keeps a list in a string."""
    found = []
    for path in modules():
        joined, split = set(), set()
        for node in ast.walk(tree(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "join" and isinstance(node.func.value, ast.Constant):
                joined.add(node.func.value.value)
            elif node.func.attr == "split" and node.args and isinstance(node.args[0], ast.Constant):
                split.add(node.args[0].value)
        found += [f"{relative(path)} {constant!r}" for constant in sorted(map(str, (joined & split) - {" ", "\n"}))]
    assert found == []


def test_only_kg_files_writes_the_files_of_a_store() -> None:
    """A file that is opened for writing in place is torn by a crash: storages write through ``kg.files.disk``."""
    writing = []
    for path in modules():
        if path.is_relative_to(PACKAGE / "kg") and not path.is_relative_to(PACKAGE / "kg" / "files"):
            calls = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
            writing += [f"{relative(path)}:{call.lineno}" for call in calls if _writes_in_place(call)]
    assert writing == []


def _writes_in_place(node: ast.Call) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in {"write_text", "write_bytes"}:
        return True
    values = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    modes = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return called == "open" and any(mode and set(mode) <= set("wxabt+") and set(mode) & set("wxa+") for mode in modes)


def test_the_search_for_writes_in_place_finds_them() -> None:
    calls = {
        "open(path, 'w')": True,
        "path.open('wb')": True,
        "open(path, mode='a')": True,
        "path.write_text(text)": True,
        "open(path)": False,
        "path.open('rb')": False,
    }
    found = {text: ast.parse(text, mode="eval").body for text in calls}
    assert {text: isinstance(call, ast.Call) and _writes_in_place(call) for text, call in found.items()} == calls
