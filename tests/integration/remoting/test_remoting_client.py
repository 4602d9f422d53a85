"""The client over real sockets: replies, deadlines, lost connections, threads, forks, and its end."""

from __future__ import annotations

import gc
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import pytest
from interrupt_kit import alarms

from zenitmq.model.errors import (
    BufferFull,
    ClientClosed,
    ConnectionLost,
    InvalidParameter,
    RemoteProtocolError,
    RequestTimeout,
    TopicNotFound,
    ZenitError,
)
from zenitmq.remoting import io_thread
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import (
    ConsumersChanged,
    GetMaxOffset,
    GetRoute,
    Heartbeat,
    HeartbeatReply,
    OffsetReply,
    Reply,
    SendMessages,
    SendReply,
)
from zenitmq.remoting.options import IN_FLIGHT_MAX
from zenitmq.remoting.server import Publisher

ASK = GetMaxOffset("t", 0)


class Answers:
    """What `on_reply` was told, in order."""

    def __init__(self) -> None:
        self.got: list[tuple[Reply | None, bytes, ZenitError | None]] = []
        self.came = threading.Semaphore(0)

    def __call__(self, reply: Reply | None, payload: bytes, error: ZenitError | None) -> None:
        self.got.append((reply, payload, error))
        self.came.release()

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.came.acquire(timeout=10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_a_late_reply_is_not_taken_for_the_next_ones(serve: Any, client: Any) -> None:
    numbers = iter(range(10))

    def late_at_first(call: Any) -> OffsetReply | None:
        number = next(numbers)
        if number == 0:
            call.loop.call_later(120, lambda: call.loop.reply(call, OffsetReply(0)))
            return None
        return OffsetReply(number)

    served = serve({GetMaxOffset: late_at_first})
    begin = time.monotonic()
    with pytest.raises(RequestTimeout) as timed_out:
        client.call(served.address, ASK, timeout_ms=60)
    assert 0.05 < time.monotonic() - begin < 1
    assert timed_out.value.timeout_ms == 60
    for expected in (1, 2):
        time.sleep(0.1)
        assert client.call(served.address, ASK, timeout_ms=2000)[0] == OffsetReply(expected)


def test_signals_do_not_lengthen_a_wait(serve: Any, client: Any) -> None:
    """ZeroMQ's own timeout began anew after each: a caller whose program has a timer waited for ever."""
    dealer = client._context.dealer(serve({}).address)
    with alarms(0.002, at_most=1000) as seen:
        assert dealer.receive(20) is None
    assert len(seen) < 1000
    dealer.close()


def test_the_errors_of_a_reply_are_raised(serve: Any, client: Any) -> None:
    def refuse(call: Any) -> None:
        raise TopicNotFound(call.request.topic)

    served = serve({GetRoute: refuse})
    with pytest.raises(TopicNotFound) as refused:
        client.call(served.address, GetRoute("nope"), timeout_ms=2000)
    assert refused.value.topic == "nope"


def test_a_refused_connection_fails_at_once_both_ways(client: Any) -> None:
    address, answers = f"127.0.0.1:{free_port()}", Answers()
    begin = time.monotonic()
    with pytest.raises(ConnectionLost) as lost:
        client.call(address, ASK, timeout_ms=10_000)
    client.send_nowait(address, ASK, None, timeout_ms=10_000, on_reply=answers)
    answers.wait()
    assert time.monotonic() - begin < 1
    assert lost.value.address == address
    assert isinstance(answers.got[0][2], ConnectionLost)


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "127.0.0.1:99999", "127.0.0.1:x", "127.0.0.1:*"])
def test_what_is_no_address_is_told(client: Any, address: str) -> None:
    with pytest.raises(InvalidParameter):
        client.call(address, ASK, timeout_ms=100)


def test_an_unknown_host_is_a_lost_connection(client: Any) -> None:
    with pytest.raises(ConnectionLost):
        client.call("no.such.host.invalid:1", ASK, timeout_ms=100)


def test_a_server_that_goes_fails_what_is_in_flight_at_once(serve: Any, client: Any, until: Any) -> None:
    served = serve({GetMaxOffset: lambda _: None})
    answers, errors = Answers(), []

    def wait() -> None:
        try:
            client.call(served.address, ASK, timeout_ms=30_000)
        except ZenitError as error:
            errors.append(error)

    caller = threading.Thread(target=wait)
    caller.start()
    for _ in range(5):
        client.send_nowait(served.address, ASK, None, timeout_ms=30_000, on_reply=answers)
    assert until(lambda: served.loop.statistics().requests == 6)
    served.stop()
    begin = time.monotonic()
    caller.join(5)
    answers.wait(5)
    assert time.monotonic() - begin < 1
    assert [type(error) for error in errors] == [ConnectionLost]
    assert [type(error) for _, _, error in answers.got] == [ConnectionLost] * 5


def test_a_server_that_came_back_is_found_again(serve: Any, client: Any) -> None:
    handlers, answers = {GetMaxOffset: lambda _: OffsetReply(1)}, Answers()
    served = serve(handlers)
    client.call(served.address, ASK, timeout_ms=2000)
    client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=answers)
    answers.wait()
    served.stop()
    time.sleep(0.15)  # longer than a connection is taken to be fresh
    again = serve(handlers, bind=served.address)
    assert client.call(again.address, ASK, timeout_ms=2000)[0] == OffsetReply(1)
    client.send_nowait(again.address, ASK, None, timeout_ms=2000, on_reply=answers)
    answers.wait()
    assert answers.got[1][0] == OffsetReply(1)


def test_callbacks_come_once_each_whatever_thread_drains(serve: Any, client: Any) -> None:
    """Many threads share one connection; every request is answered exactly once, with its own reply and payload."""
    served = serve(
        {
            SendMessages: lambda c: c.loop.reply(
                c, SendReply(c.request.queue_id, 0, 0, 0, b""), [bytes([c.request.count])]
            )
        }
    )
    got: dict[int, list[tuple[int, bytes]]] = {}
    came = threading.Semaphore(0)

    def one(number: int) -> Any:
        def on_reply(reply: Any, payload: bytes, error: Any) -> None:
            got.setdefault(number, []).append((reply.queue_id, payload))
            came.release()

        return on_reply

    def send(thread: int) -> None:
        for index in range(100):
            number = thread * 100 + index
            request = SendMessages("t", number, number % 200)
            client.send_nowait(served.address, request, b"x", timeout_ms=10_000, on_reply=one(number))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(800):
        assert came.acquire(timeout=10)
    assert got == {number: [(number, bytes([number % 200]))] for number in range(800)}


def test_what_is_in_flight_is_bounded(serve: Any, client: Any) -> None:
    served, answers = serve({GetMaxOffset: lambda _: None, SendMessages: lambda _: None}), Answers()
    for _ in range(IN_FLIGHT_MAX):
        client.send_nowait(served.address, ASK, None, timeout_ms=60_000, on_reply=answers)
    with pytest.raises(BufferFull):
        client.send_nowait(served.address, ASK, None, timeout_ms=60_000, on_reply=answers)
    with RemotingClient() as other:

        def fill() -> None:
            for _ in range(400):
                other.send_nowait(served.address, SendMessages("t", 0, 1), chunk, timeout_ms=60_000, on_reply=answers)

        chunk = bytes(255 << 10)
        with pytest.raises(BufferFull):
            fill()


def test_deadlines_of_callbacks_are_kept(serve: Any, client: Any) -> None:
    served, answers = serve({GetMaxOffset: lambda _: None}), Answers()
    begin = time.monotonic()
    client.send_nowait(served.address, ASK, None, timeout_ms=50, on_reply=answers)
    answers.wait()
    assert isinstance(answers.got[0][2], RequestTimeout)
    assert time.monotonic() - begin < 1


def test_a_failing_callback_harms_nobody(serve: Any, client: Any, caplog: Any) -> None:
    served, answers = serve({GetMaxOffset: lambda _: OffsetReply(1)}), Answers()
    client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=lambda *_: 1 // 0)
    client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=answers)
    client.call_later(1, lambda: 1 // 0)
    answers.wait()
    ticks = threading.Semaphore(0)
    timer = client.every(5, ticks.release)
    assert ticks.acquire(timeout=5)
    assert ticks.acquire(timeout=5)
    timer.cancel()
    assert any("callback failed" in record.message for record in caplog.records)


def test_a_server_pushes_on_the_shared_connection_and_into_calls(serve: Any, client: Any) -> None:
    def notify(call: Any) -> HeartbeatReply:
        assert call.loop.send_to(call.identity, ConsumersChanged(call.request.client_id))
        return HeartbeatReply(1)

    served, answers, pushed = serve({Heartbeat: notify}), Answers(), []
    client.on_request(ConsumersChanged, lambda address, request, _: pushed.append((address, request.group)))
    client.send_nowait(served.address, Heartbeat("shared"), None, timeout_ms=2000, on_reply=answers)
    answers.wait()
    client.call(served.address, Heartbeat("own"), timeout_ms=2000)
    assert pushed == [(served.address, "shared"), (served.address, "own")]


def test_what_a_server_pushes_into_a_call_is_heard_though_the_call_fails(serve: Any, client: Any) -> None:
    def notify(call: Any) -> None:
        call.loop.send_to(call.identity, ConsumersChanged(call.request.client_id), (b"beside it",))

    served, pushed = serve({Heartbeat: notify}), []
    client.on_request(ConsumersChanged, lambda _, request, payload: pushed.append((request.group, payload)))
    with pytest.raises(RequestTimeout):
        client.call(served.address, Heartbeat("late"), timeout_ms=100)
    assert pushed == [("late", b"beside it")]


def test_a_connection_that_nobody_could_look_after_is_made_anew(
    serve: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, answers = serve({GetMaxOffset: lambda _: OffsetReply(4)}), Answers()
    client.call_later(0, lambda: None)  # the I/O thread runs
    with monkeypatch.context() as full:
        full.setattr(io_thread, "POSTED_MAX", 0)
        with pytest.raises(BufferFull):
            client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=answers)
    client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=answers)
    answers.wait()
    assert answers.got[0][0] == OffsetReply(4)


def test_a_lost_connection_is_told(serve: Any, client: Any) -> None:
    served, answers, lost = serve({GetMaxOffset: lambda _: OffsetReply(4)}), Answers(), threading.Event()
    client.on_lost(lambda address: lost.set() if address == served.address else None)
    client.send_nowait(served.address, ASK, None, timeout_ms=2000, on_reply=answers)
    answers.wait()
    assert not lost.is_set()
    served.stop()
    assert lost.wait(5)


def test_a_pushed_requests_callback_may_call_back(serve: Any, client: Any) -> None:
    def notify(call: Any) -> HeartbeatReply:
        call.loop.send_to(call.identity, ConsumersChanged("g"))
        return HeartbeatReply(1)

    served, asked = serve({Heartbeat: notify, GetMaxOffset: lambda _: OffsetReply(4)}), []
    client.on_request(ConsumersChanged, lambda address, *_: asked.append(client.call(address, ASK, timeout_ms=2000)[0]))
    assert client.call(served.address, Heartbeat("c"), timeout_ms=2000)[0] == HeartbeatReply(1)
    assert asked == [OffsetReply(4)]


def test_a_signal_handler_may_call_while_its_thread_waits(serve: Any, client: Any) -> None:
    """As a command does that is told to stop: it takes leave of the broker from the handler."""

    def interrupt(call: Any) -> None:
        call.loop.call_later(20, lambda: signal.raise_signal(signal.SIGUSR1))
        call.loop.call_later(200, lambda: call.loop.reply(call, HeartbeatReply(1)))

    served, asked = serve({Heartbeat: interrupt, GetMaxOffset: lambda _: OffsetReply(4)}), []
    before = signal.signal(
        signal.SIGUSR1, lambda *_: asked.append(client.call(served.address, ASK, timeout_ms=2000)[0])
    )
    try:
        assert client.call(served.address, Heartbeat("c"), timeout_ms=5000)[0] == HeartbeatReply(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert asked == [OffsetReply(4)]
    assert client.call(served.address, ASK, timeout_ms=2000)[0] == OffsetReply(4)


def test_oneway_requests_arrive(serve: Any, client: Any) -> None:
    came = threading.Event()
    served = serve({Heartbeat: lambda call: came.set() or HeartbeatReply(1)})
    assert client.oneway(served.address, Heartbeat("c"))
    assert came.wait(5)


def test_a_subscription_outlives_its_publisher(client: Any, until: Any) -> None:
    got: list[list[bytes]] = []
    publisher = Publisher("127.0.0.1:0")
    client.subscribe(publisher.address, got.append)
    assert until(lambda: publisher.publish(b"t", b"1") or got)
    publisher.close()
    got.clear()
    with Publisher(publisher.address) as publisher:
        assert until(lambda: publisher.publish(b"t", b"2") or [b"t", b"2"] in got)


def test_a_subscription_follows_a_publisher_whose_name_has_another_address(
    client: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[bytes] = []
    at = "127.0.0.1"
    asked = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **named: asked(at if host == "mover" else host, *rest, **named)
    )
    with Publisher("127.0.0.1:0") as before:
        port = before.address.rpartition(":")[2]
        with Publisher(f"127.0.0.2:{port}") as after:
            client.subscribe(f"mover:{port}", lambda frames: got.append(frames[1]))
            assert until(lambda: before.publish(b"t", b"before") or got)
            client.subscribe(f"mover:{port}", lambda frames: got.append(b"twice"))  # it is heard already
            at = "127.0.0.2"
            client.subscribe(f"mover:{port}", lambda frames: got.append(frames[1]))
            assert until(lambda: after.publish(b"t", b"after") or b"after" in got)
            assert set(got) == {b"before", b"after"}


def test_a_peer_that_answers_nonsense(raw: Any, client: Any) -> None:
    """A malformed reply to a call is an error of its own; the next call has a new connection."""
    import zmq

    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.set(zmq.LINGER, 0)
    router.set(zmq.RCVTIMEO, 5000)
    port = router.bind_to_random_port("tcp://127.0.0.1")

    def answer() -> None:
        for _ in range(2):
            identity = router.recv_multipart()[0]
            router.send_multipart([identity, b"nonsense"])

    liar = threading.Thread(target=answer)
    liar.start()
    with pytest.raises(RemoteProtocolError):
        client.call(f"127.0.0.1:{port}", ASK, timeout_ms=2000)
    answers = Answers()
    client.send_nowait(f"127.0.0.1:{port}", ASK, None, timeout_ms=200, on_reply=answers)
    answers.wait()
    assert isinstance(answers.got[0][2], RequestTimeout)
    liar.join()
    router.close()
    context.term()


def test_a_threads_connections_end_with_it(serve: Any, client: Any, until: Any) -> None:
    served, seen = serve({GetMaxOffset: lambda call: seen.append(call.identity) or OffsetReply(1)}), []

    def ask() -> None:
        for _ in range(2):
            client.call(served.address, ASK, timeout_ms=2000)

    for _ in range(3):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert len(set(seen)) == 3
    for identity in set(seen):
        assert until(lambda: not served.on_loop(lambda: served.loop.send_to(identity, GetRoute("x"))))  # noqa: B023


def test_close_ends_waiting_calls_and_itself(serve: Any) -> None:
    served, answers, errors = serve({GetMaxOffset: lambda _: None}), Answers(), []
    client = RemotingClient()

    def wait() -> None:
        try:
            client.call(served.address, ASK, timeout_ms=60_000)
        except ZenitError as error:
            errors.append(error)

    callers = [threading.Thread(target=wait) for _ in range(4)]
    for caller in callers:
        caller.start()
    client.send_nowait(served.address, ASK, None, timeout_ms=60_000, on_reply=answers)
    time.sleep(0.1)
    begin = time.monotonic()
    client.close()
    for caller in callers:
        caller.join(5)
    assert time.monotonic() - begin < 2
    assert [type(error) for error in errors] == [ClientClosed] * 4
    assert isinstance(answers.got[0][2], ClientClosed)
    with pytest.raises(ClientClosed):
        client.call(served.address, ASK, timeout_ms=100)
    with pytest.raises(ClientClosed):
        client.send_nowait(served.address, ASK, None, timeout_ms=100, on_reply=answers)
    client.close()


FORKED = """
import os, sys
from zenitmq.model.errors import ClientClosed
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetMaxOffset, OffsetReply
address, ask = sys.argv[1], GetMaxOffset("t", 0)
client = RemotingClient()
client.call(address, ask, timeout_ms=5000)
client.send_nowait(address, ask, None, timeout_ms=5000, on_reply=lambda *_: None)
child = os.fork()
if child == 0:
    for use in (
        lambda: client.call(address, ask, timeout_ms=5000),
        lambda: client.send_nowait(address, ask, None, timeout_ms=5000, on_reply=lambda *_: None),
    ):
        try:
            use()
            os._exit(1)
        except ClientClosed as error:
            if "fork" not in str(error):
                os._exit(2)
    client.close()
    with RemotingClient() as own:
        os._exit(0 if own.call(address, ask, timeout_ms=5000)[0] == OffsetReply(1) else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert client.call(address, ask, timeout_ms=5000)[0] == OffsetReply(1)
client.close()
sys.exit(status)
"""


def test_a_forked_child_is_told_and_may_make_its_own(serve: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    child = subprocess.run([sys.executable, "-c", FORKED, served.address], timeout=60, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


def test_localhost_by_name(serve: Any, client: Any) -> None:
    served = serve({GetMaxOffset: lambda _: OffsetReply(1)})
    address = f"localhost:{served.address.rpartition(':')[2]}"
    assert client.call(address, ASK, timeout_ms=2000)[0] == OffsetReply(1)


def test_an_error_that_was_answered_keeps_none_of_those_who_asked(serve: Any) -> None:
    """A producer that was dropped warned, and was closed, only at a collection that happened to come by."""

    def refuse(_: object) -> None:
        raise TopicNotFound("t")

    class Caller:
        def ask(self) -> None:
            with suppress(TopicNotFound):
                client.call(served.address, ASK, timeout_ms=2000)

    served, caller = serve({GetMaxOffset: refuse}), Caller()
    gone = weakref.ref(caller)
    with RemotingClient() as client:
        gc.disable()
        try:
            caller.ask()
            del caller
            assert gone() is None
        finally:
            gc.enable()
