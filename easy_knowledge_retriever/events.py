"""Progress events and the observer hook.

An observer is any callable that takes one event. Progress bars, cost reports and traces are observers; the flows
know nothing of them. Events carry names and numbers, never document text or keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from easy_knowledge_retriever.types import Usage

__all__ = [
    "BaseProgress",
    "DocumentFailed",
    "DocumentFinished",
    "DocumentStarted",
    "Event",
    "ModelCalled",
    "ModelCharged",
    "Observer",
    "QueryFinished",
    "QueryStarted",
    "StageFinished",
    "StageProgress",
    "StageStarted",
    "ignore",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True, slots=True)
class DocumentStarted(Event):
    """An ingest began."""

    name: str


@dataclass(frozen=True, slots=True)
class StageStarted(Event):
    """A step of a document's ingest began; ``total`` units of work if known."""

    name: str
    stage: str
    total: int | None = None


@dataclass(frozen=True, slots=True)
class StageProgress(Event):
    """``done`` of ``total`` units of a step are finished."""

    name: str
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class StageFinished(Event):
    """A step ended after ``seconds``."""

    name: str
    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class DocumentFinished(Event):
    """A document is searchable."""

    name: str
    chunks: int
    entities: int
    relations: int
    seconds: float
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class DocumentFailed(Event):
    """A document was not ingested; ``code`` is that of the error."""

    name: str
    stage: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class QueryStarted(Event):
    """A question is being searched."""

    mode: str


@dataclass(frozen=True, slots=True)
class QueryFinished(Event):
    """A question was answered after ``seconds``."""

    mode: str
    passages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCalled(Event):
    """A model endpoint answered (or a cached reply did)."""

    kind: str
    """``llm``, ``embedding`` or ``rerank``."""
    model: str
    seconds: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ModelCharged(Event):
    """A request to a model was paid, or a cached reply was given instead (``usage.cached_calls``).

    Each try of a request counts. ``ModelCalled`` is about answers: it comes once for all tries.
    """

    kind: str
    """``llm``, ``embedding`` or ``rerank``."""
    model: str
    purpose: str
    """Such as ``extract``, ``answer`` or ``embed``."""
    usage: Usage
    cost: float | None
    """None if the price of the model is not known."""


@dataclass(frozen=True, slots=True)
class BaseProgress(Event):
    """``rows`` rows of a base were written so far; the last ones are of ``role``."""

    step: str
    """``export``, ``import``, ``migrate`` or ``compare``."""
    role: str
    rows: int


class Observer(Protocol):
    """Whoever wants to know. Called in the event loop: it must return at once."""

    def __call__(self, event: Event, /) -> None:
        """Takes one event."""
        ...


def ignore(event: Event, /) -> None:
    """The observer of someone who does not want to know."""
