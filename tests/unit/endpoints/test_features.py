"""What the process knows of endpoints."""

from __future__ import annotations

from easy_knowledge_retriever.endpoints.features import Features, features_of, forget_features


def test_one_entry_a_kind_an_address_and_a_model() -> None:
    first = features_of("llm", "http://a/v1", "m")
    first.json_rung = 2
    assert features_of("llm", "http://a/v1", "m") is first
    for other in (("embedding", "http://a/v1", "m"), ("llm", "http://b/v1", "m"), ("llm", "http://a/v1", "n")):
        assert features_of(*other) == Features()
    forget_features()
    assert features_of("llm", "http://a/v1", "m") == Features()


def test_it_does_not_grow_for_ever() -> None:
    kept = features_of("llm", "http://kept/v1", "m")
    lost = features_of("llm", "http://lost/v1", "m")
    for number in range(999):
        features_of("llm", f"http://{number}/v1", "m")
        features_of("llm", "http://kept/v1", "m")
    assert features_of("llm", "http://kept/v1", "m") is kept
    assert features_of("llm", "http://lost/v1", "m") is not lost
