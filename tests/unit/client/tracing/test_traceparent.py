"""The property `traceparent`: read and written, in messages and in encoded records; what is none is no context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenitmq.client.tracing.otel.conventions import attributes_of
from zenitmq.client.tracing.otel.traceparent import (
    LINKS_MAX,
    TRACEPARENT,
    encoded_traceparent,
    has_traceparent,
    ids_in_records,
    ids_of,
)
from zenitmq.model.properties import decode_properties, encode_properties

TRACE_IDS = st.integers(1, (1 << 128) - 1)
SPAN_IDS = st.integers(1, (1 << 64) - 1)
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(TRACE_IDS, SPAN_IDS)
def test_a_context_comes_back(trace_id: int, span_id: int) -> None:
    encoded = encoded_traceparent(trace_id, span_id)
    assert ids_of(decode_properties(encoded)[TRACEPARENT]) == (trace_id, span_id)
    assert list(ids_in_records(b"\x00body" + encoded + b"tail")) == [(trace_id, span_id)]
    assert has_traceparent(encode_properties({"a": "b"}) + encoded)


@pytest.mark.parametrize(
    "text",
    [None, "", "00", GOOD[:-2] + "00", GOOD.upper(), "01" + GOOD[2:], GOOD + "-x", "00-" + "0" * 32 + GOOD[35:],
     GOOD[:36] + "0" * 16 + "-01", GOOD.replace("-", "_")],
)  # fmt: skip
def test_what_is_no_sampled_context_is_none(text: str | None) -> None:
    assert ids_of(text) is None


@given(st.text())
def test_any_text_is_a_context_or_none(text: str) -> None:
    ids = ids_of(text)
    assert ids is None or all(ids)


@given(st.binary())
def test_any_records_have_few_contexts(data: bytes) -> None:
    many = b"".join(encoded_traceparent(number, 1) for number in range(1, 200))
    assert len(list(ids_in_records(data + many + many))) <= LINKS_MAX


def test_each_context_of_a_batch_is_told_once() -> None:
    records = (encoded_traceparent(1, 2) + b"..") * 3 + encoded_traceparent(3, 4)
    assert list(ids_in_records(memoryview(records))) == [(1, 2), (3, 4)]
    zeros = encoded_traceparent(1, 1).replace(b"0" * 31 + b"1", b"0" * 32)
    assert list(ids_in_records(zeros)) == []


@pytest.mark.parametrize(
    "properties", [b"", encode_properties({"x": "traceparent"}), encode_properties({"xtraceparent": "1"})]
)
def test_other_properties_are_not_taken_for_it(properties: bytes) -> None:
    assert not has_traceparent(properties)


def test_attributes_have_the_names_of_the_conventions() -> None:
    assert attributes_of("ack", "t", group="g", error_type=None) == {
        "messaging.system.name": "zenitmq",
        "messaging.operation.name": "ack",
        "messaging.operation.type": "settle",
        "messaging.destination.name": "t",
        "messaging.consumer.group.name": "g",
    }
