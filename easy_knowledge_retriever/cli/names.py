"""Verbs about names that stand for one entity: graph merges, graph merge, graph unmerge."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from easy_knowledge_retriever.cli.output import counted
from easy_knowledge_retriever.cli.verbs import Run, verb

__all__ = ["register"]


def register(group: typer.Typer) -> None:
    """Adds the verbs to the group of the graph."""
    verb(group, "merges", of="graph")(merges)
    verb(group, "merge", of="graph")(merge)
    verb(group, "unmerge", of="graph")(unmerge)


async def merges(
    run: Run,
    name: Annotated[str, typer.Argument(help="A name of an entity; every entity if left out.")] = "",
    suggest: Annotated[bool, typer.Option("--suggest", help="List entities that might be one instead.")] = False,
) -> None:
    """Shows which names were taken for variants of another one, and why.

    Example: ekr graph merges "European Union"
    """
    async with run.base() as rag:
        if suggest:
            suggestions = await rag.suggest_merges()
            rows: list[tuple[object, ...]] = [(s.first, s.second, s.similarity, s.shared) for s in suggestions]
            heads: tuple[str, ...] = ("entity", "other entity", "similarity", "shared word")
            data = [asdict(suggestion) for suggestion in suggestions]
        else:
            found = await rag.get_merges(name or None)
            rows = [(m.variant, m.entity, m.kind, m.file_path) for m in found]
            heads = ("variant", "entity", "kind", "stated in")
            data = [asdict(merge) for merge in found]

    def shown() -> None:
        run.screen.table(heads, rows)
        run.screen.say(counted(len(rows), "suggestion" if suggest else "merge"), style="dim")

    run.screen.result({"suggestions" if suggest else "merges": data}, shown)


async def merge(
    run: Run,
    variant: Annotated[str, typer.Argument(help="The name, as documents write it.")],
    into: Annotated[str, typer.Argument(help="The name of the entity it belongs to.")],
) -> None:
    """Makes two names stand for one entity.

    Example: ekr graph merge "Tomas L." "Tomas Lindqvist"
    """
    async with run.base(embeds=True) as rag:
        await rag.merge_entities(variant, into)
        info = await rag.get_entity_info(into)
    run.screen.result({"entity": info}, lambda: run.screen.say(f"{variant!r} is {info['entity_name']!r} now"))


async def unmerge(run: Run, variant: Annotated[str, typer.Argument(help="The variant, as documents write it.")]) -> None:
    """Takes a variant out of the entity it was merged into.

    Example: ekr graph unmerge "The Office"
    """
    async with run.base(embeds=True) as rag:
        await rag.unmerge_entity(variant)
        info = await rag.get_entity_info(variant)
    run.screen.result({"entity": info}, lambda: run.screen.say(f"{info['entity_name']!r} is an entity of its own now"))
