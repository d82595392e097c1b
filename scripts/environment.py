"""Makes the virtual environment of this checkout and installs the project into it. Standard library only.

Both commands of the README start here. The environment is ``.venv`` beside ``pyproject.toml``, whatever environment may
be active: nothing of the user's is touched. A stamp of what was installed makes the second run quick.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv"
OLDEST = (3, 11)


class SetUpError(Exception):
    """The environment cannot be made; the message says why and what to do."""


def prepared(extras: tuple[str, ...] = ()) -> Path:
    """Path of an interpreter that has this project with ``extras`` installed.

    Raises:
        SetUpError: Python is too old, an environment cannot be made, or the packages cannot be had.
    """
    if sys.version_info < OLDEST:
        running = ".".join(map(str, sys.version_info[:3]))
        raise SetUpError(f"This is Python {running}; 3.11 or newer is needed. Start the script with such an interpreter.")
    python = _interpreter()
    stamp = FOLDER / f"installed-{'-'.join(extras) or 'base'}.stamp"
    wanted = _fingerprint(extras)
    if _runs(python) and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    installer = _installer(python)
    print(f"Installing into {FOLDER} (once, a minute or two) …", flush=True)
    started = time.monotonic()
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    _install(installer, "--editable", target)
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def beside(python: Path, requirement: str) -> Path:
    """Folder that holds a requirement and what it needs, to stand before the packages of the environment.

    Raises:
        SetUpError: The packages cannot be had.
    """
    folder = FOLDER / "beside" / requirement.replace("==", "-")
    stamp = folder / "installed.stamp"
    wanted = f"{requirement} {sys.version_info[:3]}"
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        _install(_installer(python), "--target", str(folder), requirement)
        stamp.write_text(wanted, encoding="utf-8")
    return folder


def _interpreter() -> Path:
    return FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _runs(python: Path) -> bool:
    """Whether the environment is whole: a copied or half-made one has an interpreter that does not start."""
    try:
        return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _fingerprint(extras: tuple[str, ...]) -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(repr((extras, sys.version_info[:3], str(ROOT))).encode())
    return digest.hexdigest()


def _installer(python: Path) -> list[str]:
    """Makes the environment if it is not whole, and gives the pip command that installs into it.

    Debian and Ubuntu ship Python without a working ``ensurepip``; there the pip of the running interpreter installs.
    """
    if not _runs(python):
        print(f"Making a virtual environment in {FOLDER} …", flush=True)
        _make(with_pip=True)
    if _has_pip(python):
        return [str(python), "-m", "pip"]
    if importlib.util.find_spec("pip") is not None:
        if not _runs(python):
            _make(with_pip=False)
        return [sys.executable, "-m", "pip", "--python", str(python)]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    raise SetUpError(
        "This Python has neither ensurepip nor pip, so nothing can be installed.\n"
        f"On Debian and Ubuntu: apt install python{version}-venv   (then start this script again)"
    )


def _has_pip(python: Path) -> bool:
    return _runs(python) and subprocess.run([python, "-m", "pip", "--version"], check=False, capture_output=True).returncode == 0


def _make(*, with_pip: bool) -> None:
    """Makes the environment; one whose ``ensurepip`` failed is left as it is, for :func:`_installer` to see."""
    builder = venv.EnvBuilder(with_pip=with_pip, clear=FOLDER.exists(), symlinks=os.name != "nt")
    try:
        builder.create(FOLDER)
    except subprocess.CalledProcessError:
        return
    except OSError as failure:
        raise SetUpError(f"No virtual environment can be made in {FOLDER}: {failure}") from failure


def _install(installer: list[str], *what: str) -> None:
    command = [*installer, "install", "-q", "--disable-pip-version-check", "--no-input", "--retries", "2", *what]
    if subprocess.run(command, check=False, cwd=ROOT).returncode != 0:
        raise SetUpError(
            "pip could not install the project; its own words are above.\n"
            "If they speak of a connection, of trying again or of a time-out, the package registry cannot be reached:\n"
            "set HTTPS_PROXY, or PIP_INDEX_URL to a registry you can reach, and start this script again."
        )


def run(python: Path, *arguments: str, before: Path | None = None) -> int:
    """Exit code of the interpreter run with these arguments in the root of the checkout, where its output is UTF-8.

    Packages in the folder ``before``, if there is one, are found before those of the interpreter.
    """
    environment = {**os.environ, "PYTHONUTF8": "1", **({"PYTHONPATH": str(before)} if before else {})}
    try:
        return subprocess.run([python, *arguments], check=False, cwd=ROOT, env=environment).returncode
    except KeyboardInterrupt:
        return 130
