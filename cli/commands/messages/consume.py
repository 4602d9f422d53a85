"""`zenit consume`: prints messages of a topic as lines, as a member of a group.

A message counts as consumed when its line was written to stdout: offsets are committed behind it, each second and at the
end, so messages that did not reach the reader come again. Lost messages are never skipped silently: each range is a line on
stderr (--json: an object among the messages), and the exit code is 1. While no messages can come, a line on stderr gives
the reason, for example a broker that is down.

With --pop the broker hands out single messages, and each is acknowledged when its line was written to stdout.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ....model.clock import datetime_of_ms, monotonic_ms
from ...message_text import compile_format, message_document
from ...options import Json, Namesrv, complete_groups, complete_topics, parse_time_ms, usage_of_values
from ...output import json_line, note, reader_is_gone
from ...roles import stop_on_signals

if TYPE_CHECKING:
    from ....client.consuming.prefetch import MessagesLost
    from ....client.consuming.start_from import StartFrom
    from ....record.kernel import StoredMessage

POLL_MESSAGES: Final = 1000
POP_MESSAGES: Final = 32
POLL_SECONDS: Final = 0.25
COMMIT_MS: Final = 1000

Pop = Annotated[
    bool, typer.Option("--pop", help="The broker hands out single messages, of any queue, and keeps the leases.")
]
Acks = Annotated[
    bool | None,
    typer.Option(
        "--ack/--no-ack",
        help="With --pop: acknowledge what is printed, as usual, or not: then it comes again after --invisible.",
        show_default=False,
    ),
]
Invisible = Annotated[
    float | None,
    typer.Option(
        "--invisible", metavar="S", min=1, max=43_200, help="With --pop: for S seconds nobody else gets a message."
    ),
]


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("consume")(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    group: Annotated[
        str,
        typer.Option(
            "--group", metavar="G", help="The consumer group, which keeps the offsets.", autocompletion=complete_groups
        ),
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|latest|TIME",
            help="Where the group begins in a queue for which it has no offset.",
        ),
    ] = "earliest",
    maximum: Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="End after N messages.")] = None,
    idle_exit: Annotated[
        float | None, typer.Option("--idle-exit", metavar="S", min=0, help="End after S seconds without a message.")
    ] = None,
    line_format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="F", help="E.g. '{queue_id}:{queue_offset} {keys} {body}'; else the body alone."
        ),
    ] = None,
    expression: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Tags: 'buy || sell'; else all messages.")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql", metavar="EXPR", help="A condition: \"amount > 10 AND region = 'eu'\"; else all messages."
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write a trace of each message, for `zenit message trace`.")
    ] = False,
    pop: Pop = False,
    ack: Acks = None,
    invisible: Invisible = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print the messages of a topic, one line each (--json: one object each).

    It ends at --max, --idle-exit or Ctrl-C, or when the program that reads its output ends (`| head`). A group continues
    where it stopped; `zenit group reset-offset` moves it. `zenit peek` and `zenit tail` print messages without a group.

    With --pop any number of members share all queues, and no other members can be in the group.

    Exit code 1 if messages are lost because their bytes are damaged at every replica: the other messages are printed, and the
    group continues after the lost ones. Also if --idle-exit is reached while no broker serves the topic; without --idle-exit it
    waits for a broker.
    """
    if sql is not None and expression is not None:
        raise typer.BadParameter("give either --filter or --sql", param_hint="--sql")
    line = line_of(line_format, as_json)
    _check_pop(pop=pop, ack=ack, invisible=invisible, trace=trace)
    start_from = _start(start)
    from ....model.subscription import Sql

    wanted = expression if sql is None else Sql(sql)
    stopping = threading.Event()
    stop_on_signals(stopping.set)
    lost = LostRanges(as_json=as_json)
    source: _Pulling | _Popping
    with usage_of_values():
        if pop:
            source = _Popping(group, namesrv, start_from, acks=ack is not False, invisible=invisible)
        else:
            source = _Pulling(group, namesrv, start_from, trace=trace, lost=lost)
        source.consumer.subscribe(topic, wanted)
    with source.consumer:
        _print_messages(source, lost, line, maximum, idle_exit, stopping)
    if lost.count:
        raise typer.Exit(1)


def _check_pop(*, pop: bool, ack: bool | None, invisible: float | None, trace: bool) -> None:
    """Raises typer.BadParameter."""
    if not pop and (ack is not None or invisible is not None):
        hint = "--invisible" if ack is None else "--ack" if ack else "--no-ack"
        raise typer.BadParameter("belongs to --pop", param_hint=hint)
    if pop and trace:
        raise typer.BadParameter("does not go with --pop", param_hint="--trace")


def line_of(line_format: str | None, as_json: bool) -> Callable[[StoredMessage], bytes]:
    """The function that prints a message. Raises typer.BadParameter."""
    if as_json and line_format is not None:
        raise typer.BadParameter("give either --format or --json", param_hint="--format")
    if as_json:
        return _json_bytes
    with usage_of_values():
        return compile_format(line_format or "{body}")


class _Pulling:
    """Messages come queue by queue, and offsets are committed."""

    def __init__(
        self, group: str, namesrv: str | None, start_from: StartFrom | datetime, *, trace: bool, lost: LostRanges
    ) -> None:
        from ....client.pull_consumer import PullConsumer

        self.consumer = PullConsumer(
            group, namesrv=namesrv, start_from=start_from, auto_commit=False, trace=trace, on_lost=lost.add
        )
        self._committed_ms = monotonic_ms()

    def next(self, room: int | None) -> Sequence[StoredMessage]:
        """At most `room` messages."""
        wanted = POLL_MESSAGES if room is None else min(POLL_MESSAGES, room)
        return cast("Sequence[StoredMessage]", self.consumer.poll(max_messages=wanted, timeout=POLL_SECONDS))

    def on_printed(self, messages: Sequence[StoredMessage]) -> None:  # noqa: ARG002  # offsets say which
        """These have left for stdout."""
        if monotonic_ms() - self._committed_ms >= COMMIT_MS:
            self.consumer.commit()
            self._committed_ms = monotonic_ms()

    def end(self) -> None:
        """Nothing more is printed."""
        self.consumer.commit()


class _Popping:
    """Messages come one by one, of any queue, and are acknowledged."""

    def __init__(
        self,
        group: str,
        namesrv: str | None,
        start_from: StartFrom | datetime,
        *,
        acks: bool,
        invisible: float | None,
    ) -> None:
        from ....client.consuming.simple.consumer_core import INVISIBLE_S
        from ....client.simple_consumer import SimpleConsumer

        self.consumer = SimpleConsumer(
            group,
            namesrv=namesrv,
            start_from=start_from,
            invisible=INVISIBLE_S if invisible is None else invisible,
        )
        self._acks = acks

    def next(self, room: int | None) -> Sequence[StoredMessage]:
        """At most `room` messages."""
        wanted = POP_MESSAGES if room is None else min(POP_MESSAGES, room)
        return self.consumer.receive(wanted, wait=POLL_SECONDS)

    def on_printed(self, messages: Sequence[StoredMessage]) -> None:
        """These have left for stdout."""
        if self._acks:
            self.consumer.ack_batch(messages)

    def end(self) -> None:
        """Nothing more is printed; closing sends what is acknowledged."""


class LostRanges:
    """The ranges that the consumer skipped. `add` is called in its I/O thread, `tell` in ours. `count`: reported messages."""

    def __init__(self, *, as_json: bool) -> None:
        self.count = 0
        self._as_json = as_json
        self._untold: deque[MessagesLost] = deque()

    def add(self, lost: MessagesLost) -> None:
        """Keeps a range until it is reported."""
        self._untold.append(lost)

    def tell(self) -> None:
        """Reports each range that was added since, as a line on stderr, or an object on stdout."""
        while self._untold:
            lost = self._untold.popleft()
            self.count += lost.end - lost.begin
            if self._as_json:
                sys.stdout.buffer.write(json_line(lost_document(lost)).encode() + b"\n")
                sys.stdout.buffer.flush()
            else:
                count = lost.end - lost.begin
                what = f"message {lost.begin} is" if count == 1 else f"messages {lost.begin} to {lost.end - 1} are"
                low, high = lost.damaged
                note(f"zenit: {lost.queue}: {what} lost: damaged at the broker, bytes {low} to {high} of its log")


def lost_document(lost: MessagesLost) -> dict[str, object]:
    """The JSON object of a lost range: the only one with a `lost`. Ranges are [begin, end)."""
    queue = lost.queue
    begin, end = lost.damaged
    return {
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "broker_name": queue.broker_name,
        "lost": {"begin": lost.begin, "end": lost.end},
        "damaged_bytes": {"begin": begin, "end": end},
    }


def _print_messages(
    source: _Pulling | _Popping,
    lost: LostRanges,
    line: Callable[[StoredMessage], bytes],
    maximum: int | None,
    idle_exit: float | None,
    stopping: threading.Event,
) -> None:
    """Prints until told to stop, or until the reader is gone; only what was written to stdout counts as consumed."""
    out = sys.stdout.buffer
    printed = 0
    heard_ms = monotonic_ms()
    waits_for = ""
    while not stopping.is_set() and (maximum is None or printed < maximum):
        batch = source.next(None if maximum is None else maximum - printed)
        lost.tell()
        if batch:
            out.write(b"".join([line(message) for message in batch]))
            out.flush()
            printed += len(batch)
            heard_ms = monotonic_ms()
            source.on_printed(batch)
        elif reader_is_gone():
            break
        else:
            reason = source.consumer.waits_for
            if reason is not None and str(reason) != waits_for:
                note(f"zenit: waiting: {reason}")
            waits_for = "" if reason is None else str(reason)
            if idle_exit is not None and monotonic_ms() - heard_ms >= idle_exit * 1000:
                if reason is not None:
                    raise reason
                break
    source.end()
    lost.tell()


def _json_bytes(message: StoredMessage) -> bytes:
    return json_line(message_document(message)).encode() + b"\n"


def _start(text: str) -> StartFrom | datetime:
    from ....client.consuming.start_from import StartFrom

    known = {"earliest": StartFrom.FIRST, "latest": StartFrom.LAST}
    return known.get(text) or datetime_of_ms(parse_time_ms(text, "--from"))
