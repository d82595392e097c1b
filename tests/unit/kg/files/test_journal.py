"""A record of the journal is whole or none, and stands where it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.kg.files.journal import damaged, packed, records

PAYLOADS = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\x1e", b"")), min_size=1, max_size=5)


def _journal(payloads: list[bytes], *, synced: bool = True) -> tuple[bytes, list[int]]:
    data, starts = b"", []
    for payload in payloads:
        starts.append(len(data))
        data += packed(payload, 3, len(data), len(data) if synced else 0)
    return data, starts


@given(payloads=PAYLOADS)
def test_what_was_packed_is_read(payloads: list[bytes]) -> None:
    data, starts = _journal(payloads)
    found = list(records(data, 3, 0))
    assert [record.payload for record in found] == payloads
    assert [record.end for record in found] == [*starts[1:], len(data)]
    assert [record.payload for record in records(data[starts[-1] :], 3, starts[-1])] == payloads[-1:]
    assert list(records(data, 4, 0)) == []


@given(payloads=PAYLOADS, share=st.floats(0, 1, exclude_max=True))
def test_a_torn_tail_ends_the_journal_and_is_no_damage(payloads: list[bytes], share: float) -> None:
    data, starts = _journal(payloads)
    length = int(share * len(data))
    found = list(records(data[:length], 3, 0))
    assert [record.payload for record in found] == payloads[: len(found)]
    end = found[-1].end if found else 0
    assert end == max(start for start in [*starts, len(data)] if start <= length)
    assert not damaged(data[end:length], 3, end)


@given(payloads=PAYLOADS, place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed_and_is_damage_if_anything_follows(payloads: list[bytes], place: int, bit: int) -> None:
    data, starts = _journal(payloads)
    spoilt = bytearray(data)
    spoilt[place % len(data)] ^= 1 << bit
    hit = max(number for number, start in enumerate(starts) if start <= place % len(data))
    assert [record.payload for record in records(bytes(spoilt), 3, 0)] == payloads[:hit]
    rest = bytes(spoilt)[starts[hit] :]
    assert damaged(rest, 3, starts[hit]) == (hit < len(payloads) - 1)


@given(payloads=PAYLOADS)
def test_records_that_were_never_synced_may_have_holes(payloads: list[bytes]) -> None:
    data, _ = _journal(payloads, synced=False)
    assert not damaged(b"\0" + data[1:], 3, 0)


def test_a_record_in_another_place_is_none() -> None:
    data, starts = _journal([b"one", b"two"])
    first, second = data[: starts[1]], data[starts[1] :]
    assert list(records(second + first, 3, 0)) == []
    assert [record.payload for record in records(first + first + second, 3, 0)] == [b"one"]
