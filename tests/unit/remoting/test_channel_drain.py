"""Whoever uses a channel's socket drains it, whatever came of the use: its descriptor told of a reply only once."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import pytest

from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import BufferFull, ConnectionLost, RequestTimeout
from zenitmq.remoting.channel import Channel
from zenitmq.remoting.client_socket import Dealer
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply
from zenitmq.remoting.header import encode_reply, peek_opaque

ADDRESS = "127.0.0.1:1"
REQUEST = GetMaxOffset("trades", 0)


class FakeDealer:
    """A socket of a broker that answers at once while `has_room`; each use takes the descriptor's signal, as zmq's does."""

    must_drain = True

    def __init__(self) -> None:
        self.address = ADDRESS
        self.has_room = True
        self.sent: list[bytes] = []
        self.signalled = False
        self._arrived: deque[tuple[bytes, bytes]] = deque()

    def loss(self) -> ConnectionLost:
        return ConnectionLost(ADDRESS)

    def arrive(self, header: bytes) -> None:
        self._arrived.append((header, b""))
        self.signalled = True

    def send(self, header: bytes, payload: object) -> bool:
        self.signalled = False
        if self.has_room:
            self.sent.append(header)
        return self.has_room

    def receive_nowait(self) -> tuple[bytes, bytes] | None:
        self.signalled = False
        return self._arrived.popleft() if self._arrived else None

    def waiting(self) -> int:
        """Replies that nobody will ever be told of, unless the socket is used again."""
        return 0 if self.signalled else len(self._arrived)

    def close(self) -> None:
        pass


class Answers:
    """What the callbacks of one channel were told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def named(self, name: str) -> Any:
        return lambda reply, _payload, error: self.told.append((name, error or reply))


@pytest.fixture
def dealer() -> FakeDealer:
    return FakeDealer()


@pytest.fixture
def channel(dealer: FakeDealer) -> Channel:
    return Channel(cast(Dealer, dealer), lambda address, header, payload: None)


def test_a_send_that_finds_no_room_takes_the_replies_that_came(channel: Channel, dealer: FakeDealer) -> None:
    """The failed send took the signal of a reply: without a drain its caller waits until something else happens."""
    answers = Answers()
    assert channel.send(REQUEST, None, 1000, answers.named("first"))
    dealer.arrive(encode_reply(OffsetReply(7), peek_opaque(dealer.sent[0])))
    dealer.has_room = False
    with pytest.raises(BufferFull):
        channel.send(REQUEST, None, 1000, answers.named("second"))
    assert answers.told == [("first", OffsetReply(7))]
    assert dealer.waiting() == 0
    assert channel.is_idle, "the request that did not leave is in flight nevertheless"


def test_a_request_that_found_no_room_is_never_answered(channel: Channel, dealer: FakeDealer) -> None:
    answers = Answers()
    dealer.has_room = False
    with pytest.raises(BufferFull):
        channel.send(REQUEST, None, 1000, answers.named("refused"))
    channel.expire(1 << 60)
    channel.end()
    assert answers.told == []


def test_a_callback_may_send_from_within_a_send_that_found_no_room(channel: Channel, dealer: FakeDealer) -> None:
    """Answers are told without the lock, or this waits for ever."""
    answers = Answers()

    def send_again(*_: object) -> None:
        dealer.has_room = True
        assert channel.send(REQUEST, None, 1000, answers.named("again"))
        dealer.has_room = False

    assert channel.send(REQUEST, None, 1000, send_again)
    dealer.arrive(encode_reply(OffsetReply(7), peek_opaque(dealer.sent[0])))
    dealer.has_room = False
    with pytest.raises(BufferFull):
        channel.send(REQUEST, None, 1000, answers.named("second"))
    assert len(dealer.sent) == 2
    channel.end()
    assert [name for name, _ in answers.told] == ["again"]


@pytest.mark.parametrize("has_room", [True, False])
def test_every_other_use_takes_them_too(channel: Channel, dealer: FakeDealer, has_room: bool) -> None:
    """A oneway send, whether it left or not, and a send that succeeds."""
    answers = Answers()
    assert channel.send(REQUEST, None, 1000, answers.named("first"))
    dealer.arrive(encode_reply(OffsetReply(1), peek_opaque(dealer.sent[0])))
    dealer.has_room = has_room
    assert channel.send_oneway(REQUEST, None) is has_room
    assert answers.told == [("first", OffsetReply(1))]
    dealer.has_room = True
    assert channel.send(REQUEST, None, 1000, answers.named("second"))
    dealer.arrive(encode_reply(OffsetReply(2), peek_opaque(dealer.sent[-1])))
    assert channel.send(REQUEST, None, 1000, answers.named("third"))
    assert answers.told[1:] == [("second", OffsetReply(2))]
    assert dealer.waiting() == 0


def test_each_request_is_given_up_at_its_own_time(channel: Channel) -> None:
    """Who looks learns when the next look is worth it: a request that is sent since then may be due earlier."""
    answers, begin_ms = Answers(), monotonic_ms()
    channel.send(REQUEST, None, 5000, answers.named("patient"))
    channel.expire(begin_ms + 10)
    channel.send(REQUEST, None, 100, answers.named("hasty"))
    channel.expire(begin_ms + 50)
    assert answers.told == []
    channel.expire(begin_ms + 1000)
    assert [name for name, _ in answers.told] == ["hasty"]
    channel.expire(begin_ms + 4000)
    channel.expire(begin_ms + 6000)
    assert [(name, type(error)) for name, error in answers.told] == [
        ("hasty", RequestTimeout),
        ("patient", RequestTimeout),
    ]
    assert channel.is_idle


def test_a_broker_that_answers_at_once_does_not_nest_callbacks(channel: Channel, dealer: FakeDealer) -> None:
    """Each reply has the next request sent, and finds its reply there: a consumer stood still once the stack had ended."""
    told: list[Any] = []

    def on_reply(reply: object, _payload: bytes, error: object) -> None:
        told.append(error or reply)
        if len(told) < 5_000:
            ask()

    def ask() -> None:
        sent = len(dealer.sent)
        dealer.arrive(encode_reply(OffsetReply(sent), sent + 1))  # opaques count from 1
        channel.send(REQUEST, None, 1000, on_reply)

    ask()
    assert told == [OffsetReply(number) for number in range(5_000)]
    assert channel.is_idle


def test_a_callback_that_fails_within_another_keeps_nobody_from_theirs(channel: Channel, dealer: FakeDealer) -> None:
    answers = Answers()
    within: list[Any] = []

    def failing(*_: object) -> None:
        dealer.arrive(encode_reply(OffsetReply(2), 2))
        channel.send(REQUEST, None, 1000, answers.named("second"))
        within.extend(answers.told)
        raise ValueError

    dealer.arrive(encode_reply(OffsetReply(1), 1))
    channel.send(REQUEST, None, 1000, failing)
    assert (within, answers.told) == ([], [("second", OffsetReply(2))])
