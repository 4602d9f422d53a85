"""`zenit peek`, `zenit tail`: print messages of a topic without a group. They commit nothing, and change no group.

A topic has no order over its queues: messages of several queues are ordered by store time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ....model.clock import monotonic_ms
from ....model.errors import RequestTimeout
from ....model.queue import MessageQueue
from ...options import Json, Namesrv, complete_topics, parse_moment, usage_of_values
from ...output import note, reader_is_gone
from ...roles import stop_on_signals
from ..group import queue_of
from .consume import LostRanges, line_of

if TYPE_CHECKING:
    from ....client.admin import Admin
    from ....client.pull_consumer import PullConsumer
    from ....model.subscription import Expression
    from ....record.kernel import StoredMessage

PEEK_MAX: Final = 10_000
PATIENCE_MS: Final = 10_000  # without a requested message
LOOK_FOR_QUEUES_MS: Final = 5_000
POLL_SECONDS: Final = 0.25

Ends = Mapping[MessageQueue, tuple[int, int]]
"""[begin, end) of queue offsets, by queue."""

Topic = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
Queue = Annotated[str | None, typer.Option("--queue", metavar="BROKER:ID", help="Only this queue; else all.")]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="F", help="E.g. '{queue_id}:{queue_offset} {keys} {body}'; else the body alone."),
]
Filter = Annotated[str | None, typer.Option("--filter", metavar="EXPR", help="Tags: 'buy || sell'; else all messages.")]


def register(app: typer.Typer) -> None:
    """Adds these subjects' commands."""
    app.command("peek")(peek)
    app.command("tail")(tail)


def peek(
    topic: Topic,
    count: Annotated[int, typer.Option("--max", "-n", metavar="N", min=1, max=PEEK_MAX, help="How many.")] = 10,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="latest|earliest|TIME",
            help="latest: the last N; earliest: the first N; a time: the first N stored from then on.",
        ),
    ] = "latest",
    queue: Queue = None,
    line_format: Format = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print the last messages of a topic, or the first, without a group; no offset is committed."""
    line = line_of(line_format, as_json)
    moment = None if start in ("earliest", "latest") else parse_moment(start, "--from")
    wanted = None if queue is None else queue_of(topic, queue)
    from ....client.admin import Admin

    lost = LostRanges(as_json=as_json)
    with Admin(namesrv) as admin, _reader(namesrv, lost) as reader:
        held = _held(admin, topic, wanted, moment)
        ranges = ranges_to_read(held, count, newest=start == "latest")
        messages = chosen(_read(reader, ranges), count, newest=start == "latest")
    _print(line, messages)
    lost.tell()
    if lost.count:
        raise typer.Exit(1)


def tail(
    topic: Topic,
    count: Annotated[
        int,
        typer.Option(
            "--lines", "-n", metavar="N", min=0, max=PEEK_MAX, help="How many of the last messages are printed first."
        ),
    ] = 10,
    queue: Queue = None,
    line_format: Format = None,
    expression: Filter = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print the last messages of a topic and then each new one, without a group, until Ctrl-C (exit code 130).

    It also ends when the program that reads its output ends, such as `head` in a pipe.
    """
    line = line_of(line_format, as_json)
    wanted = None if queue is None else queue_of(topic, queue)
    from ....client.admin import Admin
    from ....model.subscription import Subscription

    with usage_of_values():
        subscription = Subscription.parse(topic, expression)
    stopping = threading.Event()
    lost = LostRanges(as_json=as_json)
    with Admin(namesrv) as admin, _reader(namesrv, lost) as reader:
        held = _held(admin, topic, wanted, None)
        if count:
            last = _read(reader, ranges_to_read(held, count, newest=True))
            _print(line, chosen((each for each in last if subscription.accepts(each.tags)), count, newest=True))
        stop_on_signals(stopping.set)
        reader.assign(sorted(held), expression)
        for each, (_, end) in held.items():
            reader.seek(each, end)
        _follow(reader, lambda: _held(admin, topic, wanted, None), set(held), expression, line, lost, stopping)
    if stopping.is_set():
        raise KeyboardInterrupt


def ranges_to_read(held: Ends, count: int, *, newest: bool) -> Ends:
    """The ranges with the first or last `count` messages of a topic: so many of each queue that has any."""
    if newest:
        return {queue: (max(begin, end - count), end) for queue, (begin, end) in held.items() if end > begin}
    return {queue: (begin, min(end, begin + count)) for queue, (begin, end) in held.items() if end > begin}


def chosen(messages: Iterable[StoredMessage], count: int, *, newest: bool) -> list[StoredMessage]:
    """The first or last `count` by store time, in that order; those of one queue keep their order."""
    ordered = sorted(messages, key=lambda message: (message.stored_at_ms, message.broker_name, message.physical_offset))
    return ordered[-count:] if newest else ordered[:count]


def _reader(namesrv: str | None, lost: LostRanges) -> PullConsumer:
    """A viewer: it is of no group."""
    from ....client.consuming.start_from import StartFrom
    from ....client.pull_consumer import PullConsumer

    return PullConsumer(None, namesrv=namesrv, start_from=StartFrom.FIRST, on_lost=lost.add)


def _held(
    admin: Admin, topic: str, wanted: MessageQueue | None, since: datetime | None
) -> dict[MessageQueue, tuple[int, int]]:
    """The queues' ranges, from a moment on if one is given. Raises typer.BadParameter for a queue that does not exist."""
    rows = admin.describe_topic(topic)["queues"]
    held = {
        MessageQueue(topic, row["broker_name"], row["queue_id"]): (row["min_offset"], row["max_offset"]) for row in rows
    }
    if wanted is not None and wanted not in held:
        raise typer.BadParameter(
            f"topic {topic} has no queue {wanted.broker_name}:{wanted.queue_id}", param_hint="--queue"
        )
    if wanted is not None:
        held = {wanted: held[wanted]}
    if since is not None:
        held = {
            queue: (min(admin.search_offset(queue, since), end) if end > begin else begin, end)
            for queue, (begin, end) in held.items()
        }
    return held


def _read(reader: PullConsumer, ranges: Ends) -> list[StoredMessage]:
    """All messages of the ranges. Raises the reason if none comes for ten seconds."""
    if not ranges:
        return []
    reader.assign(sorted(ranges))
    for queue, (begin, _) in ranges.items():
        reader.seek(queue, begin)
    found: list[StoredMessage] = []
    reached = dict.fromkeys(ranges, -1)
    heard_ms = monotonic_ms()
    while any(reached[queue] < end for queue, (_, end) in ranges.items()):
        batch = cast("list[StoredMessage]", list(reader.poll(timeout=POLL_SECONDS)))
        found += [message for message in batch if message.queue_offset < ranges[message.queue][1]]
        before, reached = reached, {queue: reader.position(queue) for queue in ranges}
        for queue, (_, end) in ranges.items():
            if reached[queue] >= end > before[queue]:
                reader.pause([queue])
        if reached != before:
            heard_ms = monotonic_ms()
        elif monotonic_ms() - heard_ms >= PATIENCE_MS:
            raise reader.waits_for or RequestTimeout("the messages of the topic", PATIENCE_MS)
    reader.resume(list(ranges))
    return found


def _follow(
    reader: PullConsumer,
    look: Callable[[], Ends],
    known: set[MessageQueue],
    expression: Expression,
    line: Callable[[StoredMessage], bytes],
    lost: LostRanges,
    stopping: threading.Event,
) -> None:
    """Prints new messages until told to stop, or until the reader is gone. A new queue is read from its begin."""
    waits_for = ""
    look_ms = monotonic_ms() + LOOK_FOR_QUEUES_MS
    while not stopping.is_set() and not reader_is_gone():
        batch = cast("Iterable[StoredMessage]", reader.poll(timeout=POLL_SECONDS))
        _print(line, batch)
        lost.tell()
        reason = "" if reader.waits_for is None else str(reader.waits_for)
        if reason and reason != waits_for:
            note(f"zenit: waiting: {reason}")
        waits_for = reason
        if not reason and monotonic_ms() >= look_ms:
            look_ms = monotonic_ms() + LOOK_FOR_QUEUES_MS
            queues = set(look())
            if not queues <= known:
                known |= queues
                reader.assign(sorted(known), expression)


def _print(line: Callable[[StoredMessage], bytes], messages: Iterable[StoredMessage]) -> None:
    out = sys.stdout.buffer
    out.write(b"".join([line(message) for message in messages]))
    out.flush()
