"""The source of the project as syntax trees, for the checks of this folder."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "easy_knowledge_retriever"


@functools.cache
def tree(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def modules(*folders: str) -> list[Path]:
    """Every module of the package, or of these folders of it."""
    roots = [PACKAGE / folder for folder in folders] or [PACKAGE]
    return sorted(path for root in roots for path in ([root] if root.is_file() else root.rglob("*.py")))


def relative(path: Path) -> str:
    """Path as it is shown in a failure."""
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names a module imports, with their lines: for ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Files of the repository that git knows or would add; outside a checkout, every file that is not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        return tuple(path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file())
    return tuple(path for path in ROOT.rglob("*") if path.is_file() and not any(p.startswith(".") for p in path.parts))


def text_files() -> Iterator[tuple[Path, str]]:
    """Tracked files that are text, with their text."""
    for path in tracked():
        raw = path.read_bytes()
        if b"\0" in raw[:8192]:
            continue
        try:
            yield path, raw.decode("utf-8")
        except UnicodeDecodeError:
            continue
