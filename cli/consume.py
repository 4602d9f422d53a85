"""`zenit consume`: messages of a topic as lines, as a member of a group.

A message counts as consumed once its line has left for stdout: offsets are committed behind it, each second and at the
end, so that what a reader never got is read again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ..model.clock import datetime_of_ms, monotonic_ms
from .message_text import compile_format, message_document
from .options import Json, Namesrv, parse_time_ms
from .output import json_line
from .roles import stop_on_signals

if TYPE_CHECKING:
    from ..client.pull_consumer import PullConsumer
    from ..client.start_from import StartFrom
    from ..store.record_kernel import StoredMessage

POLL_MESSAGES: Final = 1000
POLL_SECONDS: Final = 0.25
COMMIT_MS: Final = 1000


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("consume")(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    group: Annotated[str, typer.Option("--group", metavar="G", help="The consumer group, which keeps the offsets.")],
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="earliest|latest|TIME", help="Where a queue begins for which the group has no offset."
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
    trace: Annotated[bool, typer.Option("--trace", help="Tell of each message: see `zenit message trace`.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Print the messages of a topic, one line each (--json: one object each), until --max, --idle-exit or Ctrl-C.

    A group goes on where it stopped; to move it: zenit group reset-offset.
    """
    if sql is not None and expression is not None:
        raise typer.BadParameter("give either --filter or --sql", param_hint="--sql")
    if as_json and line_format is not None:
        raise typer.BadParameter("give either --format or --json", param_hint="--format")
    line = compile_format(line_format or "{body}")
    if as_json:
        line = _json_bytes
    start_from = _start(start)
    from ..client.pull_consumer import PullConsumer
    from ..model.subscription import Sql

    wanted = expression if sql is None else Sql(sql)
    stopping = threading.Event()
    stop_on_signals(stopping.set)
    consumer = PullConsumer(group, namesrv=namesrv, start_from=start_from, auto_commit=False, trace=trace)
    consumer.subscribe(topic, wanted)
    with consumer:
        _print_messages(consumer, line, maximum, idle_exit, stopping)


def _print_messages(
    consumer: PullConsumer,
    line: Callable[[StoredMessage], bytes],
    maximum: int | None,
    idle_exit: float | None,
    stopping: threading.Event,
) -> None:
    """Polls, prints and commits until told to stop; nothing is committed that did not leave for stdout."""
    out = sys.stdout.buffer
    printed, committed_ms = 0, monotonic_ms()
    heard_ms = monotonic_ms()
    while not stopping.is_set() and (maximum is None or printed < maximum):
        room = POLL_MESSAGES if maximum is None else min(POLL_MESSAGES, maximum - printed)
        batch = consumer.poll(max_messages=room, timeout=POLL_SECONDS)
        if batch:
            out.write(b"".join([line(message) for message in cast("Iterable[StoredMessage]", batch)]))
            out.flush()
            printed += len(batch)
            heard_ms = monotonic_ms()
        elif idle_exit is not None and monotonic_ms() - heard_ms >= idle_exit * 1000:
            break
        if batch and monotonic_ms() - committed_ms >= COMMIT_MS:
            consumer.commit()
            committed_ms = monotonic_ms()
    consumer.commit()


def _json_bytes(message: StoredMessage) -> bytes:
    return json_line(message_document(message)).encode() + b"\n"


def _start(text: str) -> StartFrom | datetime:
    from ..client.start_from import StartFrom

    known = {"earliest": StartFrom.FIRST, "latest": StartFrom.LAST}
    return known.get(text) or datetime_of_ms(parse_time_ms(text, "--from"))
