"""The command line: its verbs, in the order the help shows them."""

from __future__ import annotations

import typer

from easy_knowledge_retriever.cli import asking, cost, demo, documents, graph, importing, keeping, maintenance, reindexing

__all__ = ["app", "run"]

app = typer.Typer(
    name="ekr",
    help="Documents in, page-exact cited answers out. No key and no network needed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
demo.register(app)
documents.register(app)
importing.register(app)
asking.register(app)
graph.register(app)
cost.register(app)
keeping.register(app)
maintenance.register(app)
reindexing.register(app)


def run() -> None:
    """Runs the command."""
    app()
