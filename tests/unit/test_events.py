from __future__ import annotations

import dataclasses

import pytest

from easy_knowledge_retriever import events
from easy_knowledge_retriever.events import DocumentStarted, Event, Observer, StageProgress
from easy_knowledge_retriever.testing.fakes import RecordingObserver


def test_every_event_is_a_frozen_event_and_exported() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    assert {kind.__name__ for kind in kinds} <= set(events.__all__)
    for kind in kinds:
        assert dataclasses.is_dataclass(kind)
        assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)


def test_an_event_cannot_be_changed() -> None:
    event = DocumentStarted("a.pdf")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "b.pdf"  # type: ignore[misc]


def test_any_callable_of_one_event_is_an_observer() -> None:
    seen: list[Event] = []
    observers: list[Observer] = [seen.append, events.ignore, RecordingObserver()]
    for observer in observers:
        observer(DocumentStarted("a.pdf"))
    assert seen == [DocumentStarted("a.pdf")]


def test_the_recording_observer_gives_the_events_of_a_kind_in_order() -> None:
    observer = RecordingObserver()
    for event in (StageProgress("a", "embedding", 1, 2), DocumentStarted("b"), StageProgress("a", "embedding", 2, 2)):
        observer(event)
    assert [event.done for event in observer.of(StageProgress)] == [1, 2]
    assert len(observer.events) == 3
