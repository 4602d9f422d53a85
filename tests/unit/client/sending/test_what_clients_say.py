"""Reprs that help, messages that pickle, several topics at once, and a poll that nothing can come of."""

from __future__ import annotations

import pickle
from datetime import datetime

import pytest

from zenitmq import Admin, Producer, PullConsumer, PushConsumer
from zenitmq.client.sending.send_future import BatchOutcome, SendFuture
from zenitmq.model.errors import InvalidName, InvalidParameter, LocalProtocolError, MessageIllegal
from zenitmq.model.queue import MessageQueue
from zenitmq.model.subscription import Sql, subscriptions_of
from zenitmq.record.kernel import decode_batch, encode_record

NOBODY = "127.0.0.1:9"


def stored(count: int) -> bytes:
    return b"".join(
        encode_record(
            topic=b"orders",
            body=b"body %d" % number,
            properties=b"TAGS\x01paid\x02",
            queue_id=3,
            flag=0,
            queue_offset=7 + number,
            sys_flag=0,
            born_timestamp_ms=1_700_000_000_000,
            born_host=bytes(8),
            store_timestamp_ms=1_700_000_000_001,
            store_host=bytes(8),
            reconsume_times=1,
            prepared_transaction_offset=0,
        )
        for number in range(count)
    )


def test_a_message_pickles_alone() -> None:
    batch = decode_batch(stored(200), "broker-a")
    message = batch[100].tried_again("first", 2)
    pickled = pickle.dumps(message)
    assert len(pickled) < 1000  # not the buffer of all of its poll
    again = pickle.loads(pickled)  # our own bytes
    for name in ("body", "topic", "queue", "queue_offset", "tags", "broker_name", "reconsume_times", "properties"):
        assert getattr(again, name) == getattr(message, name)
    assert repr(again) == repr(message)
    assert isinstance(again.stored_at, datetime)


def test_clients_say_whose_they_are_and_where() -> None:
    with Producer("billing", namesrv=NOBODY) as producer:
        assert repr(producer) == f"<Producer group='billing' namesrv='{NOBODY}'>"
    assert repr(producer) == f"<Producer group='billing' namesrv='{NOBODY}' closed>"
    with Admin(NOBODY) as admin:
        assert repr(admin) == f"<Admin namesrv='{NOBODY}'>"
    consumer = PullConsumer("readers", namesrv=NOBODY)
    assert repr(consumer) == f"<PullConsumer group='readers' namesrv='{NOBODY}'>"
    consumer.close()
    assert repr(consumer).endswith(" closed>")
    pushed = PushConsumer("readers", namesrv=NOBODY)
    pushed.subscribe(["b", "a"])
    assert repr(pushed) == "<PushConsumer group='readers' topics=['a', 'b'] not started>"


def test_a_future_says_how_it_stands() -> None:
    outcome = BatchOutcome()
    future = SendFuture(outcome, 0)
    assert repr(future) == "<SendFuture pending>"
    outcome.settle(MessageQueue("orders", "broker-a", 1), None, None)
    assert repr(future) == "<SendFuture queue='orders@broker-a:1'>"
    refused = BatchOutcome()
    refused.settle(None, None, MessageIllegal("no"))
    assert "MessageIllegal" in repr(SendFuture(refused, 0))


def test_a_poll_of_nothing_is_refused() -> None:
    with PullConsumer("readers", namesrv=NOBODY) as consumer:
        with pytest.raises(LocalProtocolError, match="subscribe"):
            consumer.poll(timeout=0.01)
        with pytest.raises(LocalProtocolError, match="subscribe"):
            next(iter(consumer))
        consumer.assign([])
        assert not consumer.poll(timeout=0.01)


def test_several_topics_have_one_expression() -> None:
    parsed = subscriptions_of(["b", "a", "b"], "x || y")
    assert [(one.topic, one.tags) for one in parsed] == [("b", parsed[0].tags), ("a", parsed[0].tags)]
    assert [one.topic for one in subscriptions_of("orders", Sql("a > 1"))] == ["orders"]


@pytest.mark.parametrize("topics", [[], "", b"orders", 7, None])
def test_what_names_no_topic_is_refused(topics: object) -> None:
    with pytest.raises(InvalidParameter, match="a topic, or a sequence of topics"):
        subscriptions_of(topics, None)  # type: ignore[arg-type]


def test_no_topic_is_subscribed_where_one_is_wrong() -> None:
    pushed = PushConsumer("readers", namesrv=NOBODY)
    with pytest.raises(InvalidName):
        pushed.subscribe(["good", "no blanks"])
    assert "topics=[]" in repr(pushed)
