"""The ``ekr`` command: a thin layer over the public interface."""

from __future__ import annotations


def main() -> None:
    """Entry point of the command."""
    from easy_knowledge_retriever.cli.app import run  # noqa: PLC0415  # typer and rich are wanted by the command only

    run()
