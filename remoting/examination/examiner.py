"""Answers ExamineServer: a server's own machine, and whether it reaches those whom it has to reach.

One examination at a time, in a thread of its own, since names and connections take their time; who asks meanwhile gets the
same one. The loop goes on.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from ...model.clock import Clock
from ...model.errors import BrokerBusy, BufferFull
from ...model.examination.finding import Finding, Severity
from ...model.examination.machine_rules import judge
from ...model.names import VERSION
from ..commands import ExamineServer, GetServerTime, JsonReply, Reply, Request, TimeReply
from ..request_rows import Row, row
from ..server import Call
from .machine import read_machine
from .reach import reach

log = logging.getLogger(__name__)

REACH_MS: Final = 1_500
PEERS_MAX: Final = 200
ASKING_MAX: Final = 64
RETRY_MS: Final = 1_000


class ExaminedLoop(Protocol):
    """The request loop, as far as an examiner uses it."""

    def reply(self, call: Call[Request], reply: Reply, payload: Sequence[bytes | memoryview] = ()) -> None:
        """Answers a call."""

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the loop soon; from any thread. Raises BufferFull."""


Peers = Callable[[], Iterable[tuple[str, str]]]
"""(what it is, "host:port") of all whom a server has to reach. Called on the loop."""


class Examiner:
    """Of one server. Loop thread."""

    def __init__(
        self,
        loop: ExaminedLoop,
        clock: Clock,
        *,
        role: str,
        node: str,
        peers: Peers,
        store_dir: str | None = None,
        own_findings: Callable[[], Iterable[Finding]] = tuple,
    ) -> None:
        """`store_dir`: of a broker. `own_findings`: what the server knows by itself; called on the loop."""
        self._loop = loop
        self._clock = clock
        self._role, self._node = role, node
        self._peers = peers
        self._store_dir = store_dir
        self._own_findings = own_findings
        self._asking: list[Call[ExamineServer]] = []
        self._is_examining = False

    def rows(self) -> tuple[Row, Row]:
        """For the table of what the server answers."""
        return row(ExamineServer, self._on_examine), row(GetServerTime, lambda _: TimeReply(self._clock.now_ms()))

    def _on_examine(self, call: Call[ExamineServer]) -> None:
        if len(self._asking) >= ASKING_MAX and self._is_examining:
            raise BrokerBusy(RETRY_MS, "many ask for an examination")
        if not self._is_examining:
            work = tuple(dict.fromkeys(self._peers())), tuple(self._own_findings())
            self._is_examining = True
            try:
                threading.Thread(target=self._examine, args=work, name="zenit-examiner", daemon=True).start()
            except RuntimeError as error:
                self._is_examining = False
                raise BrokerBusy(RETRY_MS, f"no thread for an examination: {error}") from None
        self._asking.append(call)

    def _examine(self, peers: tuple[tuple[str, str], ...], own: tuple[Finding, ...]) -> None:
        """The thread."""
        try:
            found = [*own, *examined_machine(self._store_dir), *judged_peers(peers)]
        except Exception as error:
            log.exception("an examination failed")
            found = [Finding(Severity.WARNING, "examination", f"it failed: {error}", "see the log of this server")]
        try:
            self._loop.post(lambda: self._answer(found))
        except BufferFull:
            self._is_examining = False  # the next who asks starts another, which answers these too

    def _answer(self, found: list[Finding]) -> None:
        document: dict[str, Any] = {
            "role": self._role,
            "node": self._node,
            "version": VERSION,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "now_ms": self._clock.now_ms(),
            "findings": [one.document() for one in found],
        }
        calls, self._asking, self._is_examining = self._asking, [], False
        payload = json.dumps(document).encode()
        for call in calls:
            self._loop.reply(call, JsonReply(), (payload,))


def examined_machine(store_dir: str | None) -> Iterable[Finding]:
    """What is found of this machine."""
    return judge(read_machine(store_dir), with_store=store_dir is not None)


def judged_peers(peers: Iterable[tuple[str, str]]) -> Iterable[Finding]:
    """One finding for each that cannot be reached, and one for all that can."""
    asked = list(peers)
    found = reach((address for _, address in asked[:PEERS_MAX]), REACH_MS)
    reached = []
    for what, address in asked[:PEERS_MAX]:
        if why := found[address]:
            remedy = "is it running, and does a firewall or a wrong address keep this server from it?"
            yield Finding(Severity.PROBLEM, "reach", f"no connection to the {what} {address}: {why}", remedy)
        else:
            reached.append(what)
    if reached:
        counts = ", ".join(f"{what} {reached.count(what)}" for what in dict.fromkeys(reached))
        yield Finding(Severity.OK, "reach", f"connections accepted: {counts}")
    if len(asked) > PEERS_MAX:
        yield Finding(Severity.NOTE, "reach", f"{len(asked) - PEERS_MAX} more were not tried")
