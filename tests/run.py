"""The test command: makes ``.venv``, installs what is needed, and runs every check. Standard library only.

python3 tests/run.py             everything CI runs
python3 tests/run.py --fast      without types and docs, and the tests without coverage
python3 tests/run.py --here      with the interpreter that runs this script, installing nothing
python3 tests/run.py tests/unit  the tests of one folder only, nothing else
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.environment import ROOT, SetUpError, beside, prepared, run

OVER_THE_WIRE = (
    "tests/unit/llm/test_service.py",
    "tests/unit/llm/test_adapting.py",
    "tests/unit/llm/test_azure.py",
    "tests/flows/test_wire.py",
    "tests/flows/test_sharing_an_endpoint.py",
)
"""What is run once more with the oldest openai package that is supported: it stands on another HTTP library."""
COVERED = ("--cov", "--cov-report=term:skip-covered")
SIDE_BY_SIDE = ("-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", "--timeout", "900")
"""A process for each core, up to four, as each starts servers of its own; the tests of a file share what it prepares, so they
stay together. A test that hangs fails and says where it stood."""


def checks(arguments: argparse.Namespace) -> list[tuple[str, tuple[str, ...]]]:
    """Name and arguments to the interpreter of each check, quickest first."""
    if arguments.paths:
        return [("tests", ("-m", "pytest", *arguments.paths))]
    found = [
        ("format", ("-m", "ruff", "format", "--check", ".")),
        ("lint", ("-m", "ruff", "check", ".")),
        ("layers", ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")),
    ]
    if arguments.fast:
        return [*found, ("tests", ("-m", "pytest", "-q", *SIDE_BY_SIDE, "--ignore=tests/docs", "tests"))]
    return [
        *found,
        ("types", ("-m", "mypy")),
        ("tests", ("-m", "pytest", *SIDE_BY_SIDE, *COVERED, "--ignore=tests/docs", "tests")),
        ("docs", ("-m", "pytest", "tests/docs")),
    ]


def oldest_openai() -> str:
    """The requirement that pins the oldest openai package that pyproject.toml allows."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    allowed = next(requirement for requirement in dependencies if requirement.startswith("openai>="))
    return f"openai=={allowed.removeprefix('openai>=').partition(',')[0]}"


def with_oldest_openai(python: Path) -> int:
    """Exit code of the tests of the services with that package before the installed one."""
    try:
        before = beside(python, oldest_openai())
    except SetUpError as failure:
        print(failure, file=sys.stderr)
        return 1
    return run(python, "-m", "pytest", "-q", *OVER_THE_WIRE, before=before)


def exit_code(codes: Iterable[int]) -> int:
    """0 if every check passed. One that a signal ended has a negative code, and failed."""
    return int(any(code != 0 for code in codes))


def main() -> int:
    """Runs the checks, all of them even if one fails, and says which did."""
    parser = argparse.ArgumentParser(description="Runs every check of this project.")
    parser.add_argument("paths", nargs="*", help="run only the tests in these files or folders")
    parser.add_argument("--fast", action="store_true", help="no types, no docs, no coverage")
    parser.add_argument("--here", action="store_true", help="use the running interpreter and install nothing")
    arguments = parser.parse_args()
    try:
        python = Path(sys.executable) if arguments.here else prepared(("dev",))
    except SetUpError as failure:
        print(failure, file=sys.stderr)
        return 1
    outcomes = []
    for name, command in checks(arguments):
        print(f"\n── {name} ──", flush=True)
        started = time.monotonic()
        code = run(python, *command)
        outcomes.append((name, code, time.monotonic() - started))
        if code == 130:
            break
    else:
        if not (arguments.paths or arguments.fast or arguments.here):
            print(f"\n── {oldest_openai()} ──", flush=True)
            started = time.monotonic()
            outcomes.append(("openai 2", with_oldest_openai(python), time.monotonic() - started))
    print()
    for name, code, seconds in outcomes:
        print(f"{'passed' if code == 0 else 'FAILED':8}{name:8}{seconds:6.1f} s")
    return exit_code(code for _, code, _ in outcomes)


if __name__ == "__main__":
    sys.exit(main())
