"""The ``ekr`` command: a thin layer over the public interface."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the command."""
    try:
        from easy_knowledge_retriever.cli.app import run  # noqa: PLC0415  # typer and rich are wanted by the command only

        run()
    except KeyboardInterrupt:  # while it starts; a running verb says what was kept
        sys.exit(130)
