"""A controller asks replicas whether their disks have all of their logs, as flush_round and flush_waits do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zenitmq.model.errors import RequestTimeout, ZenitError
from zenitmq.remoting.channel import OnReply
from zenitmq.remoting.commands import Reply, Request

if TYPE_CHECKING:
    from .broker import Broker
    from .controller import Controller
    from .simulation import Simulation


class Question:
    """A `FlushLog` that waits at a replica, until `deadline_ms` by its clock."""

    __slots__ = ("answer", "deadline_ms", "request")

    def __init__(
        self, request: Request, deadline_ms: int, answer: Callable[[Reply | None, ZenitError | None], None]
    ) -> None:
        self.request = request
        self.deadline_ms = deadline_ms
        self.answer = answer


class Answers:
    """How `FlushWaits` answers."""

    def reply(self, question: Question, reply: Reply) -> None:
        """The disk has it."""
        question.answer(reply, None)

    def fail(self, question: Question, error: ZenitError) -> None:
        """It took too long."""
        question.answer(None, error)


class LogOf:
    """A replica's log, as `FlushWaits` sees it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def written(self) -> int:
        """The end of the log."""
        return len(self._broker.disk.log)

    @property
    def flushed(self) -> int:
        """Everything below was flushed by this process."""
        return self._broker.shell.position()[1]

    def request_flush(self) -> None:
        """Of all that is written."""
        self._broker.shell.flush()


class Asker:
    """The client of remoting of one controller, as far as a `FlushRound` uses it."""

    def __init__(self, simulation: Simulation, controller: Controller) -> None:
        self._simulation = simulation
        self._controller = controller

    def send_nowait(self, address: str, request: Request, payload: None, *, timeout_ms: int, on_reply: OnReply) -> None:
        """`on_reply` is called once: with the answer, or when the time is over."""
        controller, waits = self._controller, [on_reply]

        def settle(reply: Reply | None, error: ZenitError | None) -> None:
            if waits:
                waits.pop()(reply, b"", error)

        controller.after_ms(timeout_ms, partial(settle, None, RequestTimeout("FlushLog", timeout_ms)))
        broker = self._simulation.living(address)
        if broker is None:
            return
        network = self._simulation.network

        def answer(reply: Reply | None, error: ZenitError | None) -> None:
            network.send(broker.name, controller.name, controller, partial(settle, reply, error), "flushed")

        def arrive() -> None:
            broker.on_flush_log(Question(request, broker.monotonic_ms() + timeout_ms, answer))

        network.send(controller.name, broker.name, broker, arrive, request)
