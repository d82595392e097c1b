"""Verbs about the graph: graph stats, graph show, and those about names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from easy_knowledge_retriever.cli import names
from easy_knowledge_retriever.cli.output import counted
from easy_knowledge_retriever.cli.verbs import Run, verb
from easy_knowledge_retriever.errors import NotFound
from easy_knowledge_retriever.kg.graph_storage.base import GraphCounts
from easy_knowledge_retriever.retriever import EasyKnowledgeRetriever

__all__ = ["graph_size", "register"]

_TOP = 10
_NEAR = 5


def register(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Shows the graph of entities and relations.", no_args_is_help=True)
    verb(group, "stats", of="graph")(stats)
    verb(group, "show", of="graph")(show)
    names.register(group)
    app.add_typer(group, name="graph")


async def stats(run: Run) -> None:
    """Shows the size of the graph and its best connected entities.

    Example: ekr graph stats
    """
    async with run.base() as rag:
        counts = await rag.get_graph_counts()
        best = await rag.get_knowledge_graph("*", max_depth=0, max_nodes=_TOP)
        hubs = [await _hub(rag, node) for node in best.nodes]
    hubs.sort(key=lambda hub: (-hub.relations, hub.name))
    data = {"entities": counts.entities, "relations": counts.relations, "mentions": counts.mentions, "hubs": hubs}

    def shown() -> None:
        run.screen.say(graph_size(counts), style="bold")
        rows = [(hub.name, hub.type, hub.relations) for hub in hubs]
        run.screen.table(("entity", "type", "relations"), rows, right=("relations",))

    run.screen.result(data, shown)


def graph_size(counts: GraphCounts) -> str:
    """How much a graph holds, for people."""
    entities, relations = counted(counts.entities, "entity", "entities"), counted(counts.relations, "relation")
    return f"{entities}, {relations}, {counted(counts.mentions, 'mention')}"


@dataclass(frozen=True, slots=True)
class Hub:
    """An entity and the number of its relations."""

    name: str
    type: str
    relations: int


async def _hub(rag: EasyKnowledgeRetriever, node: Mapping[str, Any]) -> Hub:
    name = node["entity_name"]
    around = await rag.get_knowledge_graph(name, max_depth=1)
    return Hub(name, node["entity_type"], len(_at(name, around.edges)))


def _at(name: str, edges: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [edge for edge in edges if name in (edge["src_id"], edge["tgt_id"])]


async def show(run: Run, entity: Annotated[str, typer.Argument(help="Name of the entity.")]) -> None:
    """Shows an entity, where it is mentioned, and its relations.

    Example: ekr graph show "Tomas Lindqvist"
    """
    async with run.base() as rag:
        try:
            info = await rag.get_entity_info(entity)
        except NotFound as failure:
            near = _near(entity, await rag.get_graph_labels())
            hint = f"did you mean: {', '.join(near)}" if near else "'ekr graph stats' lists the best connected entities"
            raise NotFound(failure.message, hint=hint) from failure
        around = await rag.get_knowledge_graph(entity, max_depth=1)
    edges = _at(info["entity_name"], around.edges)

    def shown() -> None:
        run.screen.say(f"{info['entity_name']} ({info['entity_type']})", style="bold")
        if info["description"]:
            run.screen.say(str(info["description"]))
        run.screen.say(f"mentioned in {', '.join(info['file_path'])}", style="dim")
        rows = [(edge["src_id"], edge["tgt_id"], edge["keywords"], edge["weight"]) for edge in edges]
        run.screen.table(("from", "to", "keywords", "weight"), rows, right=("weight",))

    run.screen.result({"entity": info, "relations": edges}, shown)


def _near(wanted: str, labels: Sequence[str]) -> list[str]:
    """Labels that share a word with a name, most words first, then those spelt alike."""
    words = set(wanted.casefold().split())
    shared = {label: len(words & set(label.casefold().split())) for label in labels}
    sharing = sorted((label for label in labels if shared[label]), key=lambda label: -shared[label])
    folded = {label.casefold(): label for label in labels}
    alike = [folded[close] for close in difflib.get_close_matches(wanted.casefold(), folded, n=_NEAR, cutoff=0.5)]
    return list(dict.fromkeys([*sharing, *alike]))[:_NEAR]
