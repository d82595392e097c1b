"""The set-up script, where it cannot do what is asked of it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import environment

ANSWERS = SimpleNamespace(returncode=0)
FAILS = SimpleNamespace(returncode=1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environment, "FOLDER", tmp_path / ".venv")
    return tmp_path / ".venv"


def test_an_old_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OLDEST", (99, 0))
    with pytest.raises(environment.SetUpError, match=r"3\.11 or newer is needed"):
        environment.prepared()


def test_without_ensurepip_and_pip_the_package_to_install_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_make", lambda *, with_pip: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(environment.SetUpError, match=rf"apt install python3\.{sys.version_info[1]}-venv"):
        environment.prepared()
    assert not folder.exists()


def test_without_ensurepip_the_pip_of_the_running_python_installs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(environment, "_make", lambda *, with_pip: made.append(with_pip))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    python = environment._interpreter()
    assert environment._installer(python) == [sys.executable, "-m", "pip", "--python", str(python)]
    assert made == [True, False]


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.parent.joinpath("file").touch()
    environment.FOLDER = folder.parent / "file" / ".venv"
    with pytest.raises(environment.SetUpError, match="No virtual environment can be made in"):
        environment._make(with_pip=False)


def test_a_failed_install_says_what_to_set_and_leaves_no_stamp(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.setattr(environment, "_runs", lambda python: True)
    monkeypatch.setattr(environment, "_has_pip", lambda python: True)
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: FAILS)
    with pytest.raises(environment.SetUpError, match="HTTPS_PROXY, or PIP_INDEX_URL"):
        environment.prepared()
    assert list(folder.iterdir()) == []


def test_the_second_run_installs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    installed: list[list[str]] = []

    def install(command: list[str], **options: object) -> SimpleNamespace:
        installed.append(command)
        return ANSWERS

    monkeypatch.setattr(environment, "_runs", lambda python: True)
    monkeypatch.setattr(environment, "_has_pip", lambda python: True)
    monkeypatch.setattr(subprocess, "run", install)
    assert environment.prepared(("dev",)) == environment.prepared(("dev",))
    assert [command[-1] for command in installed] == [f"{environment.ROOT}[dev]"]
    environment.prepared()
    assert installed[-1][-1] == str(environment.ROOT)


def test_a_half_made_environment_is_seen(folder: Path) -> None:
    assert not environment._runs(environment._interpreter())
    folder.joinpath("bin").mkdir(parents=True)
    environment._interpreter().write_text("no interpreter")
    assert not environment._runs(environment._interpreter())


def test_a_package_beside_the_others_is_installed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[list[str]] = []

    def install(command: list[str], **options: object) -> SimpleNamespace:
        installed.append(command)
        (folder / "beside" / "openai-2.40").mkdir(parents=True)
        return ANSWERS

    monkeypatch.setattr(environment, "_runs", lambda python: True)
    monkeypatch.setattr(environment, "_has_pip", lambda python: True)
    monkeypatch.setattr(environment, "_install", lambda installer, *what: install([*installer, *what]))
    for _ in range(2):
        assert environment.beside(Path("python"), "openai==2.40") == folder / "beside" / "openai-2.40"
    assert [command[-3:] for command in installed] == [["--target", str(folder / "beside" / "openai-2.40"), "openai==2.40"]]


def test_the_oldest_client_that_is_allowed_is_the_one_that_is_tested() -> None:
    specification = importlib.util.spec_from_file_location("run", environment.ROOT / "tests" / "run.py")
    assert specification is not None
    assert specification.loader is not None
    command = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(command)
    assert command.oldest_openai() == "openai==2.40"
    assert all((environment.ROOT / path).exists() for path in command.OVER_THE_WIRE)
