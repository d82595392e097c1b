"""The values that move between the steps. All are frozen; sequences are tuples and are never changed once handed over."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AnalyzedQuery",
    "Block",
    "BlockKind",
    "Box",
    "Candidates",
    "Chunk",
    "Citation",
    "Claim",
    "Context",
    "DeletionResult",
    "DocRecord",
    "DocStatus",
    "Document",
    "Entity",
    "EntityMention",
    "Expansion",
    "Extraction",
    "ExtractionExample",
    "ExtractionSource",
    "FactKey",
    "FloatVector",
    "FloatVectors",
    "Fragment",
    "GraphFacts",
    "Hit",
    "IngestReport",
    "LexicalRecord",
    "Link",
    "MentionEdge",
    "Merge",
    "MergeSuggestion",
    "Metadata",
    "MetadataValue",
    "NameRow",
    "NameUse",
    "Naming",
    "PageSpan",
    "Passage",
    "Reference",
    "Relation",
    "RelationKey",
    "RelationMention",
    "Reply",
    "SearchFilter",
    "StagedVectors",
    "Subgraph",
    "Summary",
    "SummaryReport",
    "Tally",
    "Transcript",
    "Usage",
    "VectorRecord",
]

FloatVector = NDArray[np.float32]
"""One vector, shape (dim,)."""
FloatVectors = NDArray[np.float32]
"""Several vectors, shape (n, dim)."""
MetadataValue = str | int | float | bool
Metadata = Mapping[str, MetadataValue]
"""What the caller knows about a document; filters compare it for equality."""
BlockKind = Literal["heading", "text", "table", "list", "equation", "image", "code", "caption", "footnote", "quote", "note"]
"""A *quote* is what another said (in a mail: the message that is answered), a *note* is a speaker's or a comment."""
ExtractionSource = Literal["declared", "local", "llm", "manual"]


class Box(NamedTuple):
    """A rectangle on a page, in fractions of its width and height from the top left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a parsed document: a heading, a paragraph, a table.

    ``start`` and ``end`` are character offsets into the text of the document.
    """

    kind: BlockKind
    start: int
    end: int
    page: int | None = None
    """1-based page, or None where the format has no pages."""
    level: int | None = None
    """Depth of a heading, 1 at the top; None for other kinds."""
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A hyperlink in a document: the span of its text and where it points."""

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class PageSpan:
    """The part of a text that stands on one page: 1-based ``page``, offsets into the text of the document."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document. ``text`` is the one text that every offset of its blocks, chunks and mentions points into."""

    id: str
    name: str
    """Path under its source, or the name the caller gave: the identity within a collection."""
    text: str
    digest: str
    """Digest of the content as it came in: the version."""
    blocks: tuple[Block, ...] = ()
    title: str = ""
    """The title the document declares (a first heading, PDF metadata); empty if it declares none."""
    collection: str = ""
    pages: tuple[PageSpan, ...] = ()
    """In order, without overlap; empty where the format has no pages."""
    links: tuple[Link, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    parser: str = ""
    """Name and version of the parser."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a document's text: ``document.text[start:end] == text``. The unit of search and of cost."""

    id: str
    """hash(document id, version, order, text): two documents never share a chunk."""
    document_id: str
    document_name: str
    version: str
    order: int
    """0-based position in its document."""
    text: str
    start: int
    end: int
    pages: tuple[PageSpan, ...] = ()
    headings: tuple[str, ...] = ()
    """The title of the document and the headings above this slice, outermost first."""
    tokens: int = 0
    collection: str = ""
    extra: Metadata = field(default_factory=dict)
    """What a custom chunking function added."""
    next_id: str = ""
    """Id of the chunk after it in its document; empty for the last."""
    parent: tuple[int, int] | None = None
    """Span in the document's text of the passage that a model is given for it; None for the chunk itself."""
    table_head: str = ""
    """First row of the table that it begins inside of. It stands elsewhere in the text and is no part of the slice."""

    @property
    def page_start(self) -> int | None:
        """First page it stands on, 1-based."""
        return self.pages[0].page if self.pages else None

    @property
    def page_end(self) -> int | None:
        """Last page it stands on, 1-based."""
        return self.pages[-1].page if self.pages else None

    @property
    def heading(self) -> str:
        """The heading path as one line."""
        return " › ".join(self.headings)

    @property
    def indexed_text(self) -> str:
        """Heading, head of the table and text: the one text that is embedded, BM25-indexed and reranked."""
        return f"{self.heading}\n{self.body}" if self.headings else self.body

    @property
    def body(self) -> str:
        """The text below the head of the table it begins inside of."""
        return f"{self.table_head}\n{self.text}" if self.table_head else self.text

    def page_at(self, offset: int) -> int | None:
        """Page on which the character at ``offset`` (into the document's text) stands."""
        page = self.page_start
        for span in self.pages:
            if span.start > offset:
                break
            page = span.page
        return page


@dataclass(frozen=True, slots=True)
class EntityMention:
    """What one chunk says of an entity. ``start`` and ``end`` point into the document's text; both None if unknown."""

    name: str
    type: str = "UNKNOWN"
    description: str = ""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class RelationMention:
    """What one chunk says of two entities."""

    source: str
    target: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    weight: float = 1.0
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything one source found in one chunk: a line of the ledger. Kept as it is; entities and relations derive from it."""

    chunk_id: str
    document_id: str
    source: ExtractionSource
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractionExample:
    """A passage with what a language model should find in it: it shows by it what is wanted."""

    text: str
    """The passage."""
    entities: tuple[EntityMention, ...] = ()
    relations: tuple[RelationMention, ...] = ()
    written: str = ""
    """The list as the model should write it, where that is not to be made of the entities and relations."""


class Reply(NamedTuple):
    """What a model answered in one round, word for word."""

    text: str
    cut: bool = False
    """Whether it was cut off at the ceiling of its length."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a model answered about one chunk so far. It was paid for, and the extraction can be computed from it again."""

    document_id: str
    parts: tuple[tuple[Reply, ...], ...] = ((),)
    """The replies of each part of the chunk, round by round: one part, or two where the chunk was too long for the model."""
    complete: bool = False
    """Whether nothing more is asked, whatever the settings say by now."""

    @property
    def is_empty(self) -> bool:
        """Whether the model has not answered yet."""
        return not any(self.parts)


class NameUse(NamedTuple):
    """How one document uses a name. Empty is unknown."""

    kind: str = ""
    """Person, Organization, Location, Event, Content, Thing or Concept."""
    look: str = ""
    """``proper``, ``common`` (written small), ``acronym`` or ``acronyms`` (``LLMs``)."""
    life: str = ""
    """Life dates it gives a person: ``1938-1994`` or ``1938``."""


class Expansion(NamedTuple):
    """That a chunk says what an acronym stands for; both as folded names."""

    acronym: str
    name: str
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Naming:
    """How one document uses its names."""

    uses: Mapping[str, NameUse] = field(default_factory=dict)
    """By folded name."""
    expansions: tuple[Expansion, ...] = ()
    """Each acronym and name once, with the first chunk that says it."""


@dataclass(frozen=True, slots=True)
class NameRow:
    """How all documents together use one folded name, and what a user decided of it. Its size knows nothing of theirs."""

    documents: int = 0
    """How many use it."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Kind of thing → number of documents."""
    looks: Mapping[str, int] = field(default_factory=dict)
    lives: Mapping[str, int] = field(default_factory=dict)
    expansions: Mapping[str, int] = field(default_factory=dict)
    """Name this acronym stands for → number of documents that say so."""
    acronyms: Mapping[str, int] = field(default_factory=dict)
    """Acronym that stands for this name → number of documents that say so."""
    apart: bool = False
    """A user took it out of what it was merged into."""
    whole: bool = False
    """A user said that it is one thing, whatever the documents say."""
    into: str = ""
    """Name a user merged it into."""
    merged: tuple[str, ...] = ()
    """Names a user merged into this one, in order."""


@dataclass(frozen=True, slots=True)
class StagedVectors:
    """Some vectors that were paid for while a document is on its way in."""

    document_id: str
    keys: tuple[str, ...]
    """Digests of model and text."""
    packed: bytes
    """A vector a key, all of one length: 32-bit floats, the lowest byte first."""


@dataclass(frozen=True, slots=True)
class Merge:
    """That a name is taken for a variant of another one."""

    variant: str
    """As the documents write it."""
    entity: str
    """Name of the entity it is folded into."""
    kind: str
    """``spacing``, ``article``, ``honorific``, ``plural``, ``acronym``, or ``manual`` if a user said so."""
    chunk_id: str = ""
    """For an acronym the first chunk that says what it stands for."""
    file_path: str = ""
    """Name of that chunk's document."""


@dataclass(frozen=True, slots=True)
class MergeSuggestion:
    """Two entities that may be one."""

    first: str
    second: str
    similarity: float
    """Cosine of their vectors."""
    shared: str
    """The longest word that both names have."""


class RelationKey(NamedTuple):
    """An unordered pair of entity keys. Build it with :meth:`of`, which puts them in order."""

    first: str
    second: str

    @classmethod
    def of(cls, one: str, other: str) -> RelationKey:
        """The key of the pair, whichever comes first."""
        return cls(one, other) if one <= other else cls(other, one)

    @property
    def id(self) -> str:
        """The pair as one string, for indexes that know strings only."""
        return f"{len(self.first)}:{self.first}{self.second}"

    @classmethod
    def of_id(cls, id: str) -> RelationKey:
        """The pair of such a string."""
        length, _, pair = id.partition(":")
        return cls(pair[: int(length)], pair[int(length) :])


class Fragment(NamedTuple):
    """What one chunk says of an entity or a relation."""

    chunk_id: str
    text: str


FactKey = str | RelationKey
"""What the graph knows an entity or a relation by."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A text that a model wrote of fragments of one fact; without text, that one is wanted."""

    of: FactKey
    covers: tuple[str, ...] = ()
    """Digests of the fragments, sorted: the exact set that it is a summary of."""
    text: str = ""


Tally = tuple[tuple[str, int], ...]
"""Values with how often each was seen: most often first, then in order of the value."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Merged from every mention of one name; a function of the set of mentions, whatever their order."""

    key: str
    """The folded name, see ``text.analyzer.entity_key``: the identity."""
    names: Tally = ()
    """Spellings."""
    types: Tally = ()
    fragments: tuple[Fragment, ...] = ()
    """Distinct descriptions in order of chunk id, capped."""
    chunk_ids: tuple[str, ...] = ()
    """Chunks that mention it, in order of id, at most ``max_source_ids_per_entity``; all mentions are kept in the ledger."""
    file_paths: tuple[str, ...] = ()
    """Names of their documents, in order, at most ``max_file_paths``."""
    mention_count: int = 0
    sources: tuple[ExtractionSource, ...] = ()
    summary: str = ""
    """Stands in for the fragments where a model wrote one of exactly these."""
    pending: bool = False
    """Whether a summary of these fragments is wanted and not made yet: the fragments are shown meanwhile."""

    @property
    def name(self) -> str:
        """The spelling shown: the most frequent."""
        return self.names[0][0] if self.names else self.key

    @property
    def type(self) -> str:
        """The type given most often; UNKNOWN only if there is no other."""
        return next((value for value, _ in self.types if value != "UNKNOWN"), "UNKNOWN")

    @property
    def description(self) -> str:
        """The summary, or the fragments one a line."""
        return self.summary or "\n".join(fragment.text for fragment in self.fragments)

    @property
    def indexed_text(self) -> str:
        """Name and description: what is embedded."""
        return f"{self.name}\n{self.description}" if self.description else self.name


@dataclass(frozen=True, slots=True)
class Relation:
    """Merged from every mention of one pair; a function of the set of mentions, whatever their order."""

    key: RelationKey
    first_name: str = ""
    """Spelling of the entity ``key.first``."""
    second_name: str = ""
    keywords: Tally = ()
    fragments: tuple[Fragment, ...] = ()
    weight: float = 0.0
    """Sum of the weights of the mentions, each kept to three decimals so that the sum knows no order."""
    chunk_ids: tuple[str, ...] = ()
    file_paths: tuple[str, ...] = ()
    mention_count: int = 0
    sources: tuple[ExtractionSource, ...] = ()
    summary: str = ""
    pending: bool = False

    @property
    def description(self) -> str:
        """The summary, or the fragments one a line."""
        return self.summary or "\n".join(fragment.text for fragment in self.fragments)

    @property
    def indexed_text(self) -> str:
        """Keywords, both names and description: what is embedded."""
        head = "\t".join((*(word for word, _ in self.keywords), self.first_name, self.second_name))
        return f"{head}\n{self.description}" if self.description else head


@dataclass(frozen=True, slots=True)
class MentionEdge:
    """The edge between an entity and a chunk that mentions it. The walk goes along these."""

    entity: str
    """Entity key."""
    chunk_id: str
    document_id: str
    collection: str = ""
    weight: float = 1.0
    """1 for a name in the text; more where the chunk is *about* the entity (its title, its definition)."""
    source: ExtractionSource = "local"


@dataclass(frozen=True, slots=True)
class VectorRecord:
    """What goes into a vector index. ``vector`` has shape (dim,), is finite and not zero."""

    id: str
    vector: FloatVector
    document_id: str = ""
    """The document of a chunk; empty for entities and relations, which belong to several."""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class LexicalRecord:
    """What goes into a BM25 index: the analysed terms of each field of a chunk, in order."""

    id: str
    fields: Mapping[str, tuple[str, ...]]
    document_id: str = ""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """What comes out of an index. Higher scores are better; scores of two indexes are not comparable."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a query may see. Applied inside every search and every graph walk, never after.

    None means no restriction; an empty set means nothing may be seen. The conditions all hold at once.
    """

    collections: frozenset[str] | None = None
    document_ids: frozenset[str] | None = None
    metadata: Metadata = field(default_factory=dict)
    """Key and value pairs a document's metadata must have. Resolved to document ids before a storage is asked."""

    def admits(self, document_id: str, collection: str) -> bool:
        """Whether a row of this document may be seen (metadata aside)."""
        return (self.collections is None or collection in self.collections) and (
            self.document_ids is None or document_id in self.document_ids
        )


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A bounded part of the graph for a walk: chunk ids and entity keys as nodes, edges as parallel arrays."""

    chunk_ids: tuple[str, ...]
    """Nodes 0 … len(chunk_ids) - 1."""
    entity_keys: tuple[str, ...]
    """The nodes after the chunks."""
    first: NDArray[np.int32]
    """Shape (edges,): one end of each edge."""
    second: NDArray[np.int32]
    """Shape (edges,): the other end."""
    weight: NDArray[np.float32]
    """Shape (edges,): positive."""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.chunk_ids) + len(self.entity_keys)


@dataclass(frozen=True, slots=True)
class AnalyzedQuery:
    """A question, ready to be searched with."""

    question: str
    vector: FloatVector | None = None
    """Embedding of the question; None for a strategy that searches none."""
    terms: tuple[str, ...] = ()
    """Analysed terms for BM25."""
    names: tuple[str, ...] = ()
    """Entity keys the question may be speaking of, most specific first."""
    anchors: tuple[str, ...] = ()
    """Those of the names that some passage stands under, as its nearest heading or title."""
    low_keywords: tuple[str, ...] = ()
    """Entities and details (``ll_keywords``)."""
    high_keywords: tuple[str, ...] = ()
    """Themes (``hl_keywords``)."""
    low_vector: FloatVector | None = None
    high_vector: FloatVector | None = None


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Entities and relations found for a question, best first."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """What first-stage search found: chunk ids best first, and the facts of the graph."""

    chunks: tuple[Hit, ...] = ()
    facts: GraphFacts = field(default_factory=GraphFacts)
    stages: Mapping[str, tuple[Hit, ...]] = field(default_factory=dict)
    """The ranking of each search before fusion, by name, for the trace."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk in a context under the number an answer cites it by."""

    number: int
    """1-based."""
    chunk: Chunk
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Context:
    """The text before the model, and what its numbers refer to."""

    text: str
    passages: tuple[Passage, ...] = ()
    facts: GraphFacts = field(default_factory=GraphFacts)
    tokens: int = 0
    raw_data: Mapping[str, object] = field(default_factory=dict)
    """The same as plain data: entities, relationships, chunks, references."""

    @property
    def context(self) -> str:
        """The text, under its earlier name."""
        return self.text


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in an answer: which passage and page it points at, and whether the passage supports the claim."""

    passage: int
    """Number of the passage in the context."""
    chunk_id: str
    file_path: str
    page: int | None
    quote: str
    """The sentence of the passage the claim rests on, verbatim."""
    supported: bool = True
    start: int | None = None
    """Span of the quote in the document's text."""
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer that asserts something, cited or not, and whether what it cites carries it."""

    text: str
    """As it stands in the answer, its citations left out."""
    start: int
    """Span in the text of the answer, citations included."""
    end: int
    citations: tuple[Citation, ...] = ()
    supported: bool = False
    judged_by: Literal["", "lexical", "embedding", "judge"] = ""
    """What decided: the words, the likeness of embeddings, or the judge; empty if there was nothing to compare with."""
    reason: str = ""
    """Why it is not supported: ``uncited``, ``unknown`` (its citations name nothing that was given), ``words``, ``numbers``,
    ``names``, ``negation``, ``roles`` (who does what to whom), or the judge's words. Empty if it is."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A source the answer cites, as data."""

    reference_id: str
    file_path: str
    pages: tuple[int, ...] = ()
    passages: tuple[int, ...] = ()
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent on models: requests that were answered, and their tokens. A repeated request counts again."""

    llm_calls: int = 0
    embedding_calls: int = 0
    rerank_calls: int = 0
    prompt_tokens: int = 0
    """Tokens language models were sent, those read from the provider's own cache included."""
    completion_tokens: int = 0
    cached_calls: int = 0
    """Replies given again from our own cache; they cost nothing and count as no call."""
    cached_prompt_tokens: int = 0
    """How many of the prompt tokens the provider had in its cache."""
    embedding_tokens: int = 0
    estimated_calls: int = 0
    """Calls whose tokens were counted here, because the endpoint did not say."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, spec.name) + getattr(other, spec.name) for spec in fields(Usage)))

    def __bool__(self) -> bool:
        return self != Usage()


class DocStatus(enum.StrEnum):
    """Where a document stands."""

    PENDING = "pending"
    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class DocRecord:
    """The status of a document. ``version`` is the live one: what a query sees."""

    id: str
    name: str
    status: DocStatus
    collection: str = ""
    version: str = ""
    """Digest of the version that is served; empty if none ever was."""
    pending_version: str = ""
    """Digest of the version being built, or of the one that failed."""
    attempts: int = 0
    """How often its reading began without the process being seen to survive it."""
    stage: str = ""
    """Step that is running, or that failed."""
    error: str = ""
    chunk_count: int = 0
    page_count: int = 0
    title: str = ""
    track_id: str = ""
    metadata: Metadata = field(default_factory=dict)
    created_at: str = ""
    """ISO 8601, UTC."""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did."""

    document_id: str
    name: str
    version: str
    status: DocStatus
    chunks: int = 0
    entities: int = 0
    relations: int = 0
    pages: int = 0
    unchanged: bool = False
    """True if this version was there already and nothing was done."""
    warnings: tuple[str, ...] = ()
    failed_chunks: tuple[str, ...] = ()
    """Ids of the chunks that no language model has read, though it was asked; :meth:`retry` asks again."""
    refused_chunks: tuple[str, ...] = ()
    """Those of them that the model declined to read."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds a stage."""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    error: str = ""
    track_id: str = ""
    document: Document | None = None
    """The parse; None when it was unchanged."""


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """What became of the summaries that were wanted."""

    made: int = 0
    pending: int = 0
    """Entities and relations whose summary could not be made now; their descriptions are joined meanwhile."""
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """What a deletion did."""

    status: Literal["success", "not_found"]
    doc_id: str
    message: str
    status_code: int
    file_path: str = ""
