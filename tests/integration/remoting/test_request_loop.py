"""The request loop over real sockets: turns, deferred replies, timers, posts, and bounds."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock
from zenitmq.model.errors import BrokerBusy, ConfigError, MessageTooLarge, RequestTimeout, SystemFault, UnknownRequest
from zenitmq.remoting.commands import (
    CreateTopic,
    Done,
    GetMaxOffset,
    GetRoute,
    GetTopicList,
    GetTopics,
    JsonReply,
    Lane,
    OffsetReply,
    SendMessages,
    SendReply,
    TopicListReply,
)
from zenitmq.remoting.header import decode_reply, encode_request
from zenitmq.remoting.server import Call, RequestLoop
from zenitmq.remoting.server_socket import RouterSocket

pytestmark = pytest.mark.usefixtures("each_socket")


def test_payloads_of_a_turn_lie_side_by_side_and_are_answered_at_its_end(serve: Any, raw: Any) -> None:
    """What a handler stages stays in the arena until the turn ends; then all its senders are answered."""
    staged: list[Call] = []
    turns: list[list[bytes]] = []

    def stage(call: Call) -> None:
        call.loop.arena.used = call.end
        staged.append(call)

    def commit() -> None:
        loop = served.loop
        if staged:
            turns.append([bytes(loop.arena.view[call.begin : call.end]) for call in staged])
        for call in staged:
            loop.reply(call, SendReply(0, call.begin, call.end, 0, b""))
        staged.clear()
        loop.arena.used = 0

    gate = threading.Event()
    served = serve({SendMessages: stage, GetRoute: lambda _: gate.wait(5) and Done()}, on_turn_end=commit)
    peer = raw(served.address)
    peer.send(encode_request(GetRoute("x"), 1, timeout_ms=1000))  # the loop is busy while the others arrive
    for index in range(10):
        peer.send(encode_request(SendMessages("t", 0, 1), 100 + index, timeout_ms=1000), bytes([index]) * (index + 1))
    gate.set()
    assert decode_reply(peer.receive()[0], Done)[0] in {1, *range(100, 110)}
    replies = [decode_reply(peer.receive()[0], SendReply) for _ in range(10)]
    assert {opaque for opaque, _ in replies} | {1} >= set(range(100, 110))
    assert b"".join(b"".join(turn) for turn in turns) == b"".join(bytes([i]) * (i + 1) for i in range(10))
    assert max(len(turn) for turn in turns) > 1


def test_a_full_arena_ends_the_turn(serve: Any, raw: Any) -> None:
    used: list[int] = []

    def stage(call: Call) -> SendReply:
        call.loop.arena.used = call.end
        return SendReply(0, 0, 0, 0, b"")

    def commit() -> None:
        used.append(served.loop.arena.used)
        served.loop.arena.used = 0

    served = serve({SendMessages: stage}, on_turn_end=commit)
    peer = raw(served.address)
    for index in range(16):
        peer.send(encode_request(SendMessages("t", 0, 1), index, timeout_ms=1000), bytes(20 << 10))
    for _ in range(16):
        assert decode_reply(peer.receive()[0], SendReply)[1] == SendReply(0, 0, 0, 0, b"")
    assert sum(used) == 16 * (20 << 10)
    assert max(used) < (64 << 10) + (20 << 10)


def test_a_deferred_call_is_answered_once_from_a_timer(serve: Any, client: Any) -> None:
    def defer(call: Call) -> None:
        call.loop.call_later(30, lambda: call.loop.reply(call, OffsetReply(7)))
        call.loop.call_later(40, lambda: call.loop.reply(call, OffsetReply(8)))

    served = serve({GetMaxOffset: defer})
    assert client.call(served.address, GetMaxOffset("t", 0), timeout_ms=2000) == (OffsetReply(7), b"")
    assert served.loop.statistics().lanes[Lane.QUERY].in_flight == 0


def test_a_repeating_timer_beats_and_stops(serve: Any) -> None:
    served, beats, seen = serve({}), [], threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            timer.cancel()
            seen.set()

    timer = served.on_loop(lambda: served.loop.every(5, beat))
    assert seen.wait(5)
    served.on_loop(lambda: None)
    assert len(beats) == 3


def test_payloads_of_other_lanes_are_copied_out_and_several_frames_joined(serve: Any, raw: Any, client: Any) -> None:
    served = serve({CreateTopic: lambda call: (call.loop.reply(call, Done(), [call.payload, b"+", b"z"]), None)[1]})
    peer = raw(served.address)
    peer.send(encode_request(CreateTopic("t", 1, 1), 3, timeout_ms=1000), b"ab", b"", b"cd")
    assert peer.receive()[1:] == [b"abcd", b"+", b"z"]
    assert client.call(served.address, CreateTopic("t", 1, 1), b"x" * 9, timeout_ms=1000) == (Done(), b"x" * 9 + b"+z")


def test_a_handlers_fault_is_answered_and_told_once(serve: Any, client: Any, caplog: Any) -> None:
    served = serve({GetTopics: lambda _: 1 // 0, GetRoute: lambda _: JsonReply()})
    for _ in range(3):
        with pytest.raises(SystemFault, match="GetTopics"):
            client.call(served.address, GetTopics(), timeout_ms=1000)
    assert len([record for record in caplog.records if record.exc_info]) == 1
    with pytest.raises(UnknownRequest):
        client.call(served.address, GetMaxOffset("t", 0), timeout_ms=1000)
    assert served.loop.statistics().faults == 3


def test_an_answer_that_is_too_large_is_told_and_the_loop_goes_on(serve: Any, client: Any) -> None:
    """From a handler, and from a timer, where nobody catches what is raised."""
    large = TopicListReply(("t" * 255,) * 5000)
    served = serve({GetTopicList: lambda _: large, GetMaxOffset: lambda call: later(call)})

    def later(call: Any) -> None:
        served.loop.call_later(1, lambda: served.loop.reply(call, large))

    for request in (GetTopicList(), GetMaxOffset("t", 0), GetTopicList()):
        with pytest.raises(MessageTooLarge, match="header"):
            client.call(served.address, request, timeout_ms=2000)


def test_bytes_in_flight_are_bounded(serve: Any, raw: Any) -> None:
    """Payloads that wait for their answer count; over the bound the next is told to come again."""
    parked: list[Call] = []
    served = serve({SendMessages: parked.append}, in_flight_bytes_max=100 << 10)
    peer = raw(served.address)
    for index in range(3):
        peer.send(encode_request(SendMessages("t", 0, 1), index, timeout_ms=1000), bytes(40 << 10))
    opaque, error = decode_reply(peer.receive()[0], SendReply)
    assert opaque == 2
    assert isinstance(error, BrokerBusy)
    assert error.retry_after_ms > 0
    assert served.loop.statistics().in_flight_bytes == 80 << 10
    served.on_loop(lambda: served.loop.reply(parked[0], SendReply(0, 0, 0, 0, b"")))
    assert decode_reply(peer.receive()[0], SendReply)[0] == 0
    peer.send(encode_request(SendMessages("t", 0, 1), 9, timeout_ms=1000), bytes(40 << 10))
    served.on_loop(lambda: None)
    assert served.loop.statistics().in_flight_bytes in (40 << 10, 80 << 10)


def test_a_payload_larger_than_the_room_is_refused_whole(serve: Any, raw: Any) -> None:
    taken: list[int] = []
    served = serve({SendMessages: lambda call: taken.append(call.end) or SendReply(0, 0, 0, 0, b"")})
    peer = raw(served.address)
    peer.send(encode_request(SendMessages("t", 0, 1), 1, timeout_ms=1000), bytes(200 << 10), bytes(200 << 10))
    error = decode_reply(peer.receive()[0], SendReply)[1]
    assert isinstance(error, MessageTooLarge)
    assert error.size_bytes == 400 << 10
    peer.send(encode_request(SendMessages("t", 0, 1), 2, timeout_ms=1000), *[b"x"] * 2000)
    assert isinstance(decode_reply(peer.receive()[0], SendReply)[1], MessageTooLarge)
    assert taken == []
    assert served.loop.statistics().in_flight_bytes == 0


def test_a_reply_to_a_peer_that_left_is_counted_and_dropped(serve: Any, raw: Any, client: Any, until: Any) -> None:
    parked: list[Call] = []
    served = serve({GetMaxOffset: parked.append, GetRoute: lambda _: Done()})
    peer = raw(served.address)
    peer.send(encode_request(GetMaxOffset("t", 0), 1, timeout_ms=1000))
    assert until(lambda: bool(parked))
    peer.socket.close()

    def push() -> bool:
        return bool(served.loop.send_to(parked[0].identity, GetRoute("x")))

    assert until(lambda: not served.on_loop(push))
    served.on_loop(lambda: served.loop.reply(parked[0], OffsetReply(1)))
    served.on_loop(lambda: None)
    assert served.loop.statistics().dropped_gone >= 2
    assert served.loop.statistics().lanes[Lane.QUERY].in_flight == 0


def test_oneway_calls_are_handled_and_not_answered(serve: Any, raw: Any) -> None:
    seen: list[Call] = []
    served = serve({GetMaxOffset: lambda call: seen.append(call) or OffsetReply(len(seen))})
    peer = raw(served.address)
    peer.send(encode_request(GetMaxOffset("t", 0), 1, timeout_ms=0, oneway=True))
    peer.send(encode_request(GetMaxOffset("t", 0), 2, timeout_ms=1000))
    assert decode_reply(peer.receive()[0], OffsetReply) == (2, OffsetReply(2))


def test_a_taken_or_impossible_address_is_told(serve: Any) -> None:
    served = serve({})
    for bind in (served.address, "256.0.0.1:0", "nonsense", "127.0.0.1:99999", "no.such.host.invalid:1"):
        with pytest.raises(ConfigError, match="bind"):
            RequestLoop(bind=bind, arena=Arena(1, 1), clock=SystemClock())


def test_a_posted_fault_ends_the_loop_and_comes_out(serve: Any) -> None:
    """A callback of the broker's own (a poisoned store, say) is no request's fault: `run` raises."""
    with RequestLoop(bind="127.0.0.1:0", arena=Arena(1, 1), clock=SystemClock()) as loop:
        loop.post(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            loop.run()


def test_a_stopped_loop_closes_with_calls_parked(serve: Any, client: Any) -> None:
    served = serve({GetMaxOffset: lambda _: None})
    with pytest.raises(RequestTimeout):
        client.call(served.address, GetMaxOffset("t", 0), timeout_ms=30)
    served.stop()


def test_other_sockets_are_served_beside_the_loop_s_own(serve: Any, raw: Any) -> None:
    """A second socket that the loop watches is served in its thread, until it is watched no more."""
    other = RouterSocket("127.0.0.1:0", 1 << 20)
    heard: list[tuple[bytes, bool]] = []
    woken = threading.Semaphore(0)

    def on_readable() -> None:
        while (received := other.receive_nowait()) is not None:
            heard.append((received[1], threading.current_thread() is served.thread))
            woken.release()

    served = serve({GetMaxOffset: lambda _: OffsetReply(7)})
    served.loop.post(lambda: served.loop.watch(other.pollable, on_readable))
    stranger, peer = raw(other.address), raw(served.address)
    stranger.send(b"one")
    assert woken.acquire(timeout=5)
    peer.send(encode_request(GetMaxOffset("t", 0), 1, timeout_ms=1000))
    assert decode_reply(peer.receive()[0], OffsetReply)[1] == OffsetReply(7)
    stranger.send(b"two")
    assert woken.acquire(timeout=5)
    assert heard == [(b"one", True), (b"two", True)]
    done = threading.Event()
    served.loop.post(lambda: (served.loop.unwatch(other.pollable), other.close(), done.set()))
    assert done.wait(5)
    peer.send(encode_request(GetMaxOffset("t", 0), 2, timeout_ms=1000))
    assert decode_reply(peer.receive()[0], OffsetReply)[0] == 2
