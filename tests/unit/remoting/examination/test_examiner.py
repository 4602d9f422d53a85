"""A server examines itself: once for all who ask meanwhile, and bounded."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from zenitmq.model.clock import SystemClock, monotonic_ms, sleep_ms
from zenitmq.model.errors import BrokerBusy, BufferFull
from zenitmq.remoting.examination import examiner as module
from zenitmq.remoting.examination import reach as reaching
from zenitmq.remoting.examination.examiner import ASKING_MAX, PEERS_MAX, Examiner, judged_peers
from zenitmq.remoting.examination.machine import read_disk, read_machine
from zenitmq.remoting.examination.reach import reach


class Loop:
    """Runs what is posted when it is told to."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.answers: list[tuple[Any, dict[str, Any]]] = []

    def post(self, callback: Callable[[], None]) -> None:
        self.posted.append(callback)

    def reply(self, call: Any, reply: Any, payload: Sequence[bytes | memoryview] = ()) -> None:
        del reply
        self.answers.append((call, json.loads(bytes(payload[0]))))

    def run(self) -> None:
        deadline_ms = monotonic_ms() + 5_000
        while not self.posted:
            assert monotonic_ms() < deadline_ms
            sleep_ms(1)
        self.posted.pop(0)()


def examiner_of(loop: Loop, peers: list[tuple[str, str]]) -> Callable[[Any], Any]:
    made = Examiner(loop, SystemClock(), role="namesrv", node="n:1", peers=lambda: peers)
    return made.rows()[0].handler


def test_who_asks_meanwhile_gets_the_same_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, examined = Loop(), []
    monkeypatch.setattr(module, "examined_machine", lambda directory: examined.append(directory) or ())
    ask = examiner_of(loop, [])
    calls = [object(), object(), object()]
    for call in calls:
        ask(call)
    loop.run()
    assert [call for call, _ in loop.answers] == calls
    assert examined == [None]
    assert {(answer["role"], answer["node"]) for _, answer in loop.answers} == {("namesrv", "n:1")}


def test_too_many_who_ask_are_refused_and_a_fault_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()

    def fail(_: object) -> None:
        raise OSError("no /proc")

    monkeypatch.setattr(module, "examined_machine", fail)
    ask = examiner_of(loop, [])
    for _ in range(ASKING_MAX):
        ask(object())
    with pytest.raises(BrokerBusy):
        ask(object())
    loop.run()
    assert len(loop.answers) == ASKING_MAX
    assert loop.answers[0][1]["findings"][0]["text"] == "it failed: no /proc"


def test_peers_that_answer_and_those_that_do_not() -> None:
    with socket.socket() as listening, socket.socket() as deaf:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        deaf.bind(("127.0.0.1", 0))
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        nobody = f"127.0.0.1:{deaf.getsockname()[1]}"
        assert reach([there, nobody, there, "nonsense"], 2_000) == {
            there: "",
            nobody: "Connection refused",
            "nonsense": reach(["nonsense"], 10)["nonsense"],
        }
        found = list(judged_peers([("broker", there), ("replica", nobody)]))
        assert [one.severity.value for one in found] == ["problem", "ok"]
        assert f"the replica {nobody}: Connection refused" in found[0].text
        assert found[1].text == "connections accepted: broker 1"
        many = list(judged_peers([("broker", there)] * (PEERS_MAX + 7)))
        assert many[-1].text == "7 more were not tried"


def test_one_that_takes_no_connection_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = f"127.0.0.1:{full.getsockname()[1]}"
        waiting = [socket.create_connection(full.getsockname()) for _ in range(1)]
        try:
            assert reach([address], 50) == {address: "no answer within 50 ms"}
        finally:
            for one in waiting:
                one.close()


def test_the_disk_of_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    facts = read_disk(str(tmp_path / "a" / "b"))
    assert facts is not None
    assert facts.is_writable
    assert facts.total_bytes > facts.free_bytes > 0
    assert facts.filesystem != "unknown"
    assert read_machine(None).disk is None


def test_after_a_loop_without_room_the_next_who_asks_is_answered_and_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, calls = Loop(), [object() for _ in range(ASKING_MAX + 1)]
    ended = threading.Event()

    def wait(_: object) -> tuple[()]:
        assert ended.wait(5)
        return ()

    monkeypatch.setattr(module, "examined_machine", wait)
    ask = examiner_of(loop, [])

    def full(_: Callable[[], None]) -> None:
        raise BufferFull(1)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "post", full)
        for call in calls[:-1]:
            ask(call)
        (thread,) = [one for one in threading.enumerate() if one.name == "zenit-examiner"]
        ended.set()
        thread.join(5)
    ask(calls[-1])
    loop.run()
    assert [call for call, _ in loop.answers] == calls


def test_without_a_thread_it_is_busy_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    monkeypatch.setattr(module, "examined_machine", lambda _: ())
    ask = examiner_of(loop, [])

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        with pytest.raises(BrokerBusy, match="can't start new thread"):
            ask(object())
    ask("later")
    loop.run()
    assert [call for call, _ in loop.answers] == ["later"]


def test_slow_names_are_not_waited_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "RESOLVING_MS", 0)
    assert reach(["no.example:1"], 50) == {"no.example:1": "not tried: names are resolved too slowly"}
