"""Writes the generated pages of the documentation: ``python scripts/reference.py``. A test holds them to the program."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import typer
from typer.main import get_command

from easy_knowledge_retriever import errors, query, types
from easy_knowledge_retriever.cli.app import app
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference.py; change the program, not this page. -->\n"

EXIT_CODES = """\
| code | means |
| --- | --- |
| 0 | done |
| 1 | a fault of the program: please report it with its traceback |
| 2 | wrong usage |
| 3 | finished, but some documents failed or were refused |
| 4 | there is no such document, entity, path or knowledge base |
| 5 | not allowed |
| 6 | configuration, or a package that is not installed |
| 7 | another process is writing to the knowledge base |
| 8 | a model endpoint failed |
| 9 | the store is in doubt: `verify` found something, or it cannot be opened |
| 10 | a limit or a budget |
| 130 | interrupted with Ctrl-C |
| 141 | whoever read the output went away |
"""


def cli_page() -> str:
    """The verbs and their flags."""
    command = get_command(app)
    shared = _shared_flags(command)
    parts = [
        "# Command\n",
        NOTE,
        f"{command.help}\n",
        "`--json` gives one JSON document on standard output, with `schema_version`, `verb`, `ok` and the result; an error is\n"
        "such a document too. Logs and progress go to standard error. Flags stand after the verb.\n",
        "## Verbs\n",
    ]
    for path, verb in _verbs(command, ("ekr",)):
        parts += [f"### `{' '.join(path)}`\n", _help(verb), *_arguments(verb), *_flags(verb, leave_out=shared)]
    parts += ["## Flags of every verb\n", *_rows(shared.values()), "", "## Exit codes\n", EXIT_CODES]
    return "\n".join(parts)


def _verbs(command: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _verbs(child, (*path, name))


def _help(verb: object) -> str:
    paragraphs = (getattr(verb, "help", "") or "").split("\n\n")
    shown = [re.sub(r"^Example: (.*)$", r"```sh\n\1\n```", " ".join(paragraph.split())) for paragraph in paragraphs]
    return "\n\n".join(shown) + "\n"


def _shared_flags(command: object) -> dict[str, object]:
    """The flags of the verb that lists: it has none but those every verb about a knowledge base has, and its own one."""
    [listing] = [verb for path, verb in _verbs(command, ()) if path == ("status",)]
    return {parameter.name: parameter for parameter in listing.params if parameter.name != "help"}  # type: ignore[attr-defined]


def _arguments(verb: object) -> Iterator[str]:
    for parameter in verb.params:  # type: ignore[attr-defined]
        if parameter.param_type_name == "argument":
            yield f"- `{parameter.metavar or parameter.name.upper()}`: {parameter.help}\n"


def _flags(verb: object, leave_out: dict[str, object]) -> Iterator[str]:
    own = [p for p in verb.params if p.param_type_name == "option" and p.name not in leave_out and p.name != "help"]  # type: ignore[attr-defined]
    if own:
        yield from (*_rows(own), "")


def _rows(parameters: object) -> Iterator[str]:
    yield "| flag | meaning |\n| --- | --- |"
    for parameter in parameters:  # type: ignore[attr-defined]
        names = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len, reverse=True))
        default = f" Default: `{parameter.default}`." if parameter.default not in (None, "", 0, False, [], ()) else ""
        yield f"| {names} | {parameter.help}{default} |"


def settings_page() -> str:
    """The arguments of the retriever with their defaults."""
    described = _described(inspect.getdoc(EasyKnowledgeRetriever) or "")
    rows = []
    for name, parameter in inspect.signature(EasyKnowledgeRetriever).parameters.items():
        default = parameter.default
        shown = getattr(default, "__name__", None) or (", ".join(default) if isinstance(default, tuple) else repr(default))
        rows.append(f"| `{name}` | `{shown}` | {described[name]} |")
    head = (
        "# Settings\n",
        NOTE,
        "Arguments of `EasyKnowledgeRetriever`. They become frozen settings at once; a query may override some with\n"
        "`QueryParam`.\n",
        "| argument | default | meaning |\n| --- | --- | --- |",
    )
    return "\n".join((*head, *rows, ""))


def _described(docstring: str) -> dict[str, str]:
    _, _, block = docstring.partition("Args:\n")
    block = re.split(r"\n\S", block)[0]
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", block, flags=re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()).replace("``", "`") for name, text in found}


def errors_page() -> str:
    """The error tree."""
    rows = []
    for kind, depth in _tree(errors.EKRError, 0):
        name = f"{'&nbsp;&nbsp;&nbsp;' * depth}`{kind.__name__}`"
        rows.append(f"| {name} | `{kind.code}` | {kind.exit_code} | {(inspect.getdoc(kind) or '').splitlines()[0]} |")
    head = (
        "# Errors\n",
        NOTE,
        "Everything this library raises is an `EKRError` with `message`, `hint` and a stable `code`; the command ends with its\n"
        "exit code. An error of a vendor is the `__cause__` of ours. Cancellation stays `asyncio.CancelledError`.\n",
        "| error | code | exit | when |\n| --- | --- | --- | --- |",
    )
    return "\n".join((*head, *rows, ""))


def _tree(kind: type[errors.EKRError], depth: int) -> Iterator[tuple[type[errors.EKRError], int]]:
    yield kind, depth
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child, depth + 1)


def query_page() -> str:
    """The fields of a wish, of an answer and of an ingest report."""
    parts = ["# Queries and results\n", NOTE]
    for module, name in (
        (query, "QueryParam"),
        (query, "QueryResult"),
        (types, "Reference"),
        (types, "Citation"),
        (types, "Claim"),
    ):
        parts.append(f"## {name}\n\n{(inspect.getdoc(getattr(module, name)) or '').replace('``', '`')}\n")
        parts.append("| field | default | meaning |\n| --- | --- | --- |")
        parts += [f"| `{field}` | {default} | {meaning} |" for field, default, meaning in _fields(module, name)]
        parts.append("")
    return "\n".join(parts)


def _fields(module: ModuleType, name: str) -> Iterator[tuple[str, str, str]]:
    """Fields of a dataclass with the text that stands under each."""
    [found] = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef) and node.name == name]
    for line, below in pairwise([*found.body, ast.Pass()]):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            meaning = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            yield line.target.id, _default(line.value), " ".join(str(meaning).split()).replace("``", "`")


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    if isinstance(value, ast.Call):
        return f"`{ast.unparse(value.keywords[0].value)}()`"
    return f"`{ast.unparse(value)}`"


PAGES = {"cli.md": cli_page, "settings.md": settings_page, "query.md": query_page, "errors.md": errors_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        typer.echo(f"wrote {name}")
