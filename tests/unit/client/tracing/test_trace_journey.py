"""The journey of a message: the events in their order, whoever told of them."""

from __future__ import annotations

from typing import Any

import pytest

from zenitmq.cli.journey_text import journey_row
from zenitmq.client.tracing.trace_format import (
    ConsumeCode,
    Consumed,
    Delivered,
    Published,
    Recalled,
    TracedType,
    TraceRecord,
    TransactionEnded,
)
from zenitmq.client.tracing.trace_journey import Found, Told, groups_of, journey

PUBLISHED = Published(
    at_ms=1_000,
    region="r",
    group="orders",
    topic="trades",
    message_id="m",
    tags="",
    keys="o-17 o-18",
    store_host="10.0.0.1:10911",
    body_bytes=5,
    cost_ms=3,
    message_type=TracedType.NORMAL,
    offset_message_id="0A",
    is_ok=True,
)
FAILED = Published(
    at_ms=900,
    region="r",
    group="orders",
    topic="trades",
    message_id="m",
    tags="buy",
    keys="",
    store_host="",
    body_bytes=5,
    cost_ms=30,
    message_type=TracedType.NORMAL,
    offset_message_id="",
    is_ok=False,
)
FIRST_TRY = Delivered(at_ms=1_010, region="r", group="billing", request_id="Q1", message_id="m", retry_times=0, keys="")
SECOND_TRY = Delivered(
    at_ms=2_010, region="r", group="billing", request_id="Q2", message_id="m", retry_times=1, keys=""
)
LOST = Consumed(
    request_id="Q1", message_id="m", cost_ms=7, is_ok=False, keys="", code=ConsumeCode.EXCEPTION, at_ms=1_017, group="billing"
)  # fmt: skip
DONE_OLD = Consumed(request_id="Q2", message_id="m", cost_ms=5, is_ok=True, keys="")  # an older client's
ORPHAN = Consumed(request_id="Q9", message_id="m", cost_ms=5, is_ok=True, keys="")
ENDED = TransactionEnded(
    at_ms=1_001,
    region="r",
    group="orders",
    topic="trades",
    message_id="m",
    tags="",
    keys="",
    store_host="",
    message_type=TracedType.TRANSACTION_COMMIT,
    transaction_id="",
    state="COMMIT_MESSAGE",
    from_check=True,
)
RECALLED = Recalled(at_ms=1_002, region="r", group="orders", topic="trades", message_id="m", is_ok=True)
OTHER = Recalled(at_ms=1, region="r", group="g", topic="t", message_id="another", is_ok=True)


def told(*records: TraceRecord) -> list[Told]:
    return [Told(record, "10.0.0.7") for record in records]


def copy_of(event: str, stored_at_ms: int, attempt: int = 0) -> Found:
    return Found(
        event=event,
        topic="trades" if event == "stored" else "%RETRY%billing",
        broker_name="a",
        queue_id=1,
        queue_offset=7,
        physical_offset=700,
        offset_message_id="0A",
        stored_at_ms=stored_at_ms,
        attempt=attempt,
    )


def names(document: dict[str, Any]) -> list[tuple[str, int]]:
    return [(event["event"], event["at_ms"]) for event in document["events"]]


def test_events_come_in_the_order_of_time_whoever_told_them() -> None:
    found = [copy_of("retried", 2_000, 1), copy_of("stored", 1_000), copy_of("dead_lettered", 3_000, 2)]
    document = journey("m", told(DONE_OLD, SECOND_TRY, LOST, OTHER, FIRST_TRY, PUBLISHED, FAILED), found)
    assert names(document) == [
        ("produced", 900),
        ("produced", 1_000),
        ("stored", 1_000),
        ("delivered", 1_010),
        ("consumed", 1_017),
        ("retried", 2_000),
        ("delivered", 2_010),
        ("consumed", 2_015),
        ("dead_lettered", 3_000),
    ]
    assert (document["message_id"], document["topic"]) == ("m", "trades")
    last = document["events"][7]
    assert (last["group"], last["attempt"], last["result"], last["client"]) == ("billing", 1, "success", "10.0.0.7")


def test_what_was_not_told_is_none() -> None:
    produced, failed = journey("m", told(PUBLISHED), [])["events"][0], journey("m", told(FAILED), [])["events"][0]
    assert (produced["tags"], produced["keys"], produced["store_host"]) == (None, ["o-17", "o-18"], "10.0.0.1:10911")
    assert (failed["tags"], failed["keys"], failed["offset_message_id"], failed["store_host"]) == (
        "buy",
        [],
        None,
        None,
    )
    (orphan,) = journey("m", told(ORPHAN), [])["events"]
    assert (orphan["at_ms"], orphan["group"], orphan["attempt"]) == (0, "", None)


def test_transactions_and_recalls_are_events() -> None:
    document = journey("m", told(RECALLED, ENDED), [])
    assert names(document) == [("transaction", 1_001), ("recalled", 1_002)]
    assert document["topic"] is None
    assert document["events"][0]["transaction_id"] is None


def test_the_groups_are_those_it_was_delivered_to() -> None:
    billing = told(DONE_OLD, SECOND_TRY, PUBLISHED, OTHER)
    assert groups_of("m", billing) == ["billing"]
    assert groups_of("m", told(LOST)) == ["billing"]
    assert groups_of("another", billing) == []


@pytest.mark.parametrize(
    ("record", "row"),
    [
        (PUBLISHED, ("produced", "orders at 10.0.0.7", "3 ms, 5 bytes to 10.0.0.1:10911")),
        (FAILED, ("produced", "orders at 10.0.0.7", "failed after 30 ms, 5 bytes")),
        (SECOND_TRY, ("delivered", "billing at 10.0.0.7", "attempt 2")),
        (LOST, ("consumed", "billing at 10.0.0.7", "exception after 7 ms")),
        (ENDED, ("transaction", "orders at 10.0.0.7", "COMMIT_MESSAGE when asked")),
        (RECALLED, ("recalled", "orders at 10.0.0.7", "taken back")),
    ],
)
def test_an_event_is_a_row(record: TraceRecord, row: tuple[str, str, str]) -> None:
    (event,) = journey("m", told(record), [])["events"]
    assert journey_row(event) == row


def test_a_copy_is_a_row() -> None:
    (event,) = journey("m", [], [copy_of("dead_lettered", 5)])["events"]
    assert journey_row(event) == ("dead lettered", "a:1", "queue offset 7, id 0A")
