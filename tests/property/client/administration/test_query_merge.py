"""Pages over several brokers, whatever each of them answers at a time: every message once, the latest stored first."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from zenitmq.client.administration.message_query import Criteria, PageMerge, QueryPage
from zenitmq.model.errors import InvalidParameter
from zenitmq.record.kernel import StoredMessage, decode_record, encode_record
from zenitmq.remoting.commands import QueryMessages, QueryReply

CRITERIA = Criteria(topic="t", key="k")


@dataclass
class ModelBroker:
    """Answers with some of its messages, or says only how far it came."""

    name: str
    messages: list[StoredMessage]
    draw: Random

    def answer(self, request: QueryMessages) -> tuple[QueryReply, list[StoredMessage]]:
        left = [one for one in reversed(self.messages) if one.physical_offset < request.below]
        examined = left[: self.draw.randrange(4)]
        found = examined[: request.max_messages] if self.draw.random() < 0.8 else []
        if found:  # the messages of a batch come together
            found += [one for one in left[len(found) :] if one.physical_offset == found[-1].physical_offset]
        if not left:
            return QueryReply(0), []
        examined = found or examined[:0]
        below = found[-1].physical_offset if found else request.below
        entry = self.draw.randrange(9)
        return QueryReply(len(found), below, 20260101000000000, entry, len(examined), 1), found


def messages_of(name: str, draw: Random, count: int) -> list[StoredMessage]:
    stored_ms, offset, found = 1_700_000_000_000, 0, []
    for _ in range(count):
        stored_ms += draw.choice((0, 1, 500))
        offset += draw.choice((100, 250))
        for number in range(draw.choice((1, 1, 1, 2, 7))):
            record = encode_record(
                topic=b"t", body=b"%d" % number, physical_offset=offset, store_timestamp_ms=stored_ms
            )
            found.append(decode_record(record, name))
    return found


def page_of(brokers: dict[str, ModelBroker], cursor: str | None, max_messages: int, requests_max: int) -> QueryPage:
    merge = PageMerge(CRITERIA, cursor, brokers, max_messages)
    for _ in range(requests_max):
        asked = merge.next_request()
        if asked is None:
            break
        name, request = asked
        merge.on_reply(name, *brokers[name].answer(request))
    return merge.page()


@pytest.mark.parametrize("seed", range(40))
def test_every_message_once_and_the_latest_first(seed: int) -> None:
    draw = Random(seed)
    names = ("a", "b", "c")[: draw.randrange(1, 4)]
    brokers = {name: ModelBroker(name, messages_of(name, draw, draw.randrange(30)), draw) for name in names}
    cursor, found = None, []
    for _ in range(10_000):
        page = page_of(brokers, cursor, draw.choice((1, 3, 50)), draw.choice((1, 5, 1000)))
        found += page.messages
        cursor = page.cursor
        if cursor is None:
            break
    times = [message.stored_at_ms for message in found]
    assert times == sorted(times, reverse=True), seed
    for name, broker in brokers.items():
        places = [(message.physical_offset, message.body) for message in found if message.broker_name == name]
        assert places == [(message.physical_offset, message.body) for message in reversed(broker.messages)], seed


def test_a_broker_that_the_cursor_knows_is_asked_although_it_serves_the_topic_no_longer() -> None:
    draw = Random(0)
    brokers = {name: ModelBroker(name, messages_of(name, draw, 9), draw) for name in "ab"}
    cursor = page_of(brokers, None, 2, 100).cursor
    merge = PageMerge(CRITERIA, cursor, ["a"], 50)
    asked = {request[0] for request in [merge.next_request()] if request is not None}
    merge.on_reply("a", QueryReply(0), [])
    asked |= {request[0] for request in [merge.next_request()] if request is not None}
    assert asked == {"a", "b"}


@pytest.mark.parametrize(
    "cursor", ["", "é", "W10", "x" * 70_000, "WzEsMSx7ImEiOlsxLDIsLTNdfV0", "bnVsbA", "WzIsMCx7fV0"]
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParameter, match="cursor"):
        PageMerge(CRITERIA, cursor, ["a"], 1)


def test_a_cursor_of_another_query_is_refused() -> None:
    brokers = {"a": ModelBroker("a", messages_of("a", Random(0), 9), Random(0))}
    cursor = page_of(brokers, None, 1, 100).cursor
    for other in (Criteria(topic="t", key="l"), Criteria(topic="t", key="k", begin_ms=1)):
        with pytest.raises(InvalidParameter, match="same query"):
            PageMerge(other, cursor, ["a"], 1)


def test_a_page_leads_nowhere_while_a_broker_with_later_messages_does_not_answer() -> None:
    """Its cursor would be the one before: a reader of all pages would never end."""
    brokers = {"a": ModelBroker("a", messages_of("a", Random(1), 5), Random(1))}
    merge = PageMerge(CRITERIA, None, ["a", "b"], 9)
    found: list[StoredMessage] = []
    while not found:
        reply, found = brokers["a"].answer(QueryMessages("t", "k"))
    merge.on_reply("a", reply, found)
    assert not merge.has_advanced
    merge.on_reply("b", QueryReply(0), [])
    assert merge.has_advanced
