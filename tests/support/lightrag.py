"""An index as LightRAG leaves it in a folder, in the layout of its newer or its older versions."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from easy_knowledge_retriever.types import FloatVectors

FIRST = "Verdel lies on the river Kell. The Kell rises in Ostrania."
SECOND = "The mayor of Verdel is Ada Brandt, who built the bridge."
THIRD = "Marlow is a port. Ada Brandt was born in Marlow."
TEXTS = {"doc-verdel": f"{FIRST}\n\n{SECOND}\n", "doc-marlow": THIRD}
CHUNKS = {"chunk-1": ("doc-verdel", 0, FIRST), "chunk-2": ("doc-verdel", 1, SECOND), "chunk-3": ("doc-marlow", 0, THIRD)}
NEW_REPLIES = {
    "chunk-1": [
        "entity<|#|>Verdel<|#|>location<|#|>Verdel is a town on the Kell.\n"
        "entity<|#|>Kell<|#|>location<|#|>The Kell is a river.\n"
        "relation<|#|>Verdel<|#|>Kell<|#|>lies on, geography<|#|>Verdel lies on the river Kell.\n<|COMPLETE|>",
        "entity<|#|>Ostrania<|#|>location<|#|>Ostrania is where the Kell rises.\n<|COMPLETE|>",
    ],
    "chunk-3": ["entity<|#|>Marlow<|#|>location<|#|>Marlow is a port.\n<|COMPLETE|>"],
}
OLD_REPLIES = {
    "chunk-1": [
        '("entity"<|>"VERDEL"<|>"geo"<|>"Verdel is a town on the Kell.")##\n'
        '("entity"<|>"KELL"<|>"geo"<|>"The Kell is a river.")##'
        '("relationship"<|>"VERDEL"<|>"KELL"<|>"Verdel lies on the river Kell."<|>"lies on, geography"<|>8)##\n'
        '("content_keywords"<|>"rivers, towns")<|COMPLETE|>'
    ]
}
NODES = {
    "Ada Brandt": ("person", "Ada Brandt is mayor of Verdel.<SEP>Ada Brandt was born in Marlow.", "chunk-2<SEP>chunk-3"),
    "Verdel": ("location", "Verdel is a town on the Kell.", "chunk-1"),
    "Harbour Office": ("organization", "Added by hand.", "manual_creation"),
}
EDGES = {("Ada Brandt", "Verdel"): ("governs", "Ada Brandt is mayor of Verdel.", "chunk-2", "2.0")}


def write_json(folder: Path, name: str, value: object) -> None:
    """Writes one file of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def write_index(folder: Path, *, old: bool = False, vectors: FloatVectors | None = None) -> None:
    """Writes the index: two documents, three chunks, one of them without a kept reply."""
    rows: dict[str, dict[str, Any]] = {
        key: {"content": text, "full_doc_id": document, "chunk_order_index": order, "tokens": 12}
        for key, (document, order, text) in CHUNKS.items()
    }
    if not old:
        for row in rows.values():
            row["file_path"] = f"{row['full_doc_id'].removeprefix('doc-')}.txt"
    write_json(folder, "kv_store_text_chunks.json", rows)
    write_json(folder, "kv_store_full_docs.json", {key: {"content": text} for key, text in TEXTS.items()})
    write_json(folder, "kv_store_doc_status.json", {key: {"status": "processed"} for key in TEXTS} | _FAILED)
    write_json(folder, "kv_store_llm_response_cache.json", _old_cache() if old else _new_cache())
    (folder / "graph_chunk_entity_relation.graphml").write_text(_graphml(), encoding="utf-8")
    if vectors is not None:
        matrix = base64.b64encode(np.ascontiguousarray(vectors, dtype="<f4").tobytes()).decode()
        data = [{"__id__": key, "content": text} for key, (_, _, text) in CHUNKS.items()]
        stored = {"embedding_dim": int(vectors.shape[1]), "data": data, "matrix": matrix}
        write_json(folder, "vdb_chunks.json", stored)


_FAILED = {"doc-failed": {"status": "failed", "file_path": "failed.pdf"}}


def _new_cache() -> dict[str, Any]:
    entries: dict[str, Any] = {
        f"default:extract:{key}-{place}": {"return": reply, "cache_type": "extract", "chunk_id": key, "create_time": place}
        for key, replies in NEW_REPLIES.items()
        for place, reply in enumerate(replies)
    }
    return entries | {"hybrid:query:1": {"return": "An answer.", "cache_type": "query"}}


def _old_cache() -> dict[str, Any]:
    prompt = "---Real Data---\n######################\nText:\n{}\n######################\nOutput:"
    entries = {
        f"hash-{key}-{place}": {"return": reply, "cache_type": "extract", "original_prompt": prompt.format(CHUNKS[key][2])}
        for key, replies in OLD_REPLIES.items()
        for place, reply in enumerate(replies)
    }
    return {"default": entries}


def _graphml() -> str:
    def data(**values: str) -> str:
        return "".join(f'<data key="{key}">{value.replace("<", "&lt;")}</data>' for key, value in values.items())

    nodes = "".join(
        f'<node id="{name}">{data(d0=name, d1=kind, d2=description, d3=chunks)}</node>'
        for name, (kind, description, chunks) in NODES.items()
    )
    edges = "".join(
        f'<edge source="{source}" target="{target}">{data(d4=weight, d5=description, d6=keywords, d7=chunks)}</edge>'
        for (source, target), (keywords, description, chunks, weight) in EDGES.items()
    )
    names = ("entity_id", "entity_type", "description", "source_id", "weight", "description", "keywords", "source_id")
    keys = "".join(f'<key id="d{place}" for="all" attr.name="{name}" attr.type="string"/>' for place, name in enumerate(names))
    graph = f'<graph edgedefault="undirected">{nodes}{edges}</graph>'
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}{graph}</graphml>'
