"""`zenit produce`: sends one message per line of a file or stdin.

The line break ends a message and is not part of it; everything else of the line is, byte for byte. A last line without one
counts. An empty line is a message with an empty body (`--skip-empty` leaves them out), so that consuming the messages gives
the same lines again.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from ....model.clock import monotonic_ms, sleep_ms
from ....model.errors import BufferFull, MessageIllegal, MessageTooLarge, ZenitError
from ....model.message import BODY_BYTES_MAX, FailedSend, Message
from ....model.names import COMMAND_GROUP
from ...options import Json, Namesrv, complete_topics, parse_duration, parse_moment, parse_pairs
from ...output import counted, note, readable_bytes, show
from ...progress import line_progress

if TYPE_CHECKING:
    from ....client.producer import Producer
    from ....client.sending.send_future import SendFuture

WHOLE_BYTES_MAX: Final = 1 << 28  # limit of reading: larger bodies are refused by their size anyway
LINE_BYTES_MAX: Final = BODY_BYTES_MAX + 2  # of a line: a body that is too large, and its end
LOOK_S: Final = 3  # interval of checks whether brokers accept messages
END_S: Final = 1  # for the end of the checking thread
REST_S: Final = 5  # for requests in flight when brokers evidently do not accept messages
EARLY_MS: Final = 2  # a paced sender does not sleep for less


def register(app: typer.Typer) -> None:
    """Adds this subject's command."""
    app.command("produce")(produce)


class Tally:
    """The results of the lines so far. Only `on_failed` is called by other threads than the reading one."""

    def __init__(self) -> None:
        self.taken = 0
        self.bytes = 0
        self.failed = 0
        self.failed_bytes = 0
        self.first_error = ""
        self.is_complete = False  # every line was read
        self.is_refused = False  # an error was not the message's fault: later messages will fail too
        self._lock = threading.Lock()

    def on_failed(self, count: int, size_bytes: int, error: Exception) -> None:
        """Counts messages that were refused, or not acknowledged, and the bytes of their bodies. Any thread."""
        with self._lock:
            self.failed += count
            self.failed_bytes += size_bytes
            self.first_error = self.first_error or str(error)
            self.is_refused = self.is_refused or not isinstance(error, (MessageIllegal, MessageTooLarge))

    def summary(self, elapsed_ms: int) -> dict[str, Any]:
        """The document of `--json`."""
        sent, seconds = self.taken - self.failed, max(elapsed_ms, 1) / 1000
        return {
            "sent": sent,
            "failed": self.failed,
            "bytes": self.bytes - self.failed_bytes,
            "seconds": round(seconds, 3),
            "messages_per_second": round(sent / seconds, 1),
        }


def key_of(line: bytes, field: int) -> str | None:
    """The `field`-th (from 1) blank-separated word of a line; None if it has fewer."""
    words = line.split(maxsplit=field)
    return words[field - 1].decode("utf-8", "replace") if len(words) >= field else None


@dataclass(frozen=True, slots=True)
class _Words:
    """The places of keys in a line: fields from 1, or one sharding key for all; None = no such key."""

    key_field: int | None
    shard_field: int | None
    shared: str | None

    def key(self, line: bytes) -> str | None:
        """The key for queries."""
        return None if self.key_field is None else key_of(line, self.key_field)

    def sharding_key(self, line: bytes) -> str | None:
        """The key that chooses the queue."""
        return self.shared if self.shard_field is None else key_of(line, self.shard_field)


def messages_of(stream: BinaryIO, skip_empty: bool) -> Iterator[bytes]:
    """The lines of a stream without their line breaks. Of one that no message can hold only the beginning is kept: it is
    refused by its size, however long it is."""
    while line := stream.readline(LINE_BYTES_MAX):
        body = line[:-1] if line.endswith(b"\n") else line
        while len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX)
        if body or not skip_empty:
            yield body


def whole_of(stream: BinaryIO) -> Iterator[bytes]:
    """All of a stream as one body."""
    yield stream.read(WHOLE_BYTES_MAX)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="File to read; else stdin.")] = None,
    key_field: Annotated[
        int | None, typer.Option("--key-field", metavar="N", min=1, help="The N-th blank-separated word is the key.")
    ] = None,
    shard_field: Annotated[
        int | None,
        typer.Option(
            "--shard-field",
            metavar="N",
            min=1,
            help="The N-th word is the sharding key: same word, same queue, in order.",
        ),
    ] = None,
    sharding_key: Annotated[
        str | None, typer.Option("--sharding-key", metavar="KEY", help="A sharding key for every message.")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="All of the file or of stdin is one message.")] = False,
    tags: Annotated[str | None, typer.Option("--tags", metavar="TAG", help="A tag for every message.")] = None,
    prop: Annotated[
        list[str] | None, typer.Option("--prop", metavar="NAME=VALUE", help="A property for every message; repeatable.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay", metavar="SPAN", help="Deliver each message this long after it was sent: 500ms, 5s, 2h."
        ),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            "--deliver-at",
            metavar="TIME",
            help="Deliver all at this time: 2026-11-21T09:50, or milliseconds since the epoch.",
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", metavar="N", min=0, max=9, help="A priority for every message.")
    ] = None,
    lite_topic: Annotated[
        str | None,
        typer.Option("--lite-topic", metavar="NAME", help="The lite topic of TOPIC that every message is for."),
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, metavar="N", help="At most N messages a second.")] = None,
    skip_empty: Annotated[
        bool, typer.Option("--skip-empty", help="Skip empty lines; else each is a message with an empty body.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write a trace of each message, for `zenit message trace`.")
    ] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Send each line of a file or of stdin as a message, or all of it as one; exits 1 if any message failed."""
    _check_together(shard_field, sharding_key, priority=priority, lite_topic=lite_topic)
    if delay is not None and deliver_at is not None:
        raise typer.BadParameter("give only one of them", param_hint="--delay, --deliver-at")
    like = Message(
        topic,
        b"",
        tags=tags,
        properties=parse_pairs(prop, "--prop"),
        delay=parse_duration(delay, "--delay"),
        deliver_at=parse_moment(deliver_at, "--deliver-at", ago=False),
        priority=priority,
        lite_topic=lite_topic,
    )
    tally = Tally()
    with _source(file) as stream, _producer(namesrv, trace, tally) as producer, line_progress(stream) as progress:
        send = _sender(producer, like, tally, _Words(key_field, shard_field, sharding_key))
        bodies = whole_of(stream) if whole else messages_of(stream, skip_empty)
        elapsed_ms = _send_all(send, producer, _paced(bodies, rate), tally, progress)
    if not tally.taken:
        _check_exists(topic, namesrv)
    summary = tally.summary(elapsed_ms)
    show(summary, as_json, lambda: typer.echo(_sentence(summary)))
    if tally.failed or not tally.is_complete:
        note(f"zenit: {_complaint(tally)}")
        raise typer.Exit(1)


def _check_together(
    shard_field: int | None, sharding_key: str | None, *, priority: int | None, lite_topic: str | None
) -> None:
    """Raises BadParameter for two options that say which queue."""
    if shard_field is not None and sharding_key is not None:
        raise typer.BadParameter("give only one of them", param_hint="--shard-field, --sharding-key")
    has_key = shard_field is not None or sharding_key is not None
    if priority is not None and has_key:
        raise typer.BadParameter("a priority says which queue: no sharding key", param_hint="--priority")
    if lite_topic is not None and (has_key or priority is not None):
        raise typer.BadParameter(
            "a lite topic says which queue: no sharding key, no priority", param_hint="--lite-topic"
        )


@contextlib.contextmanager
def _source(file: str | None) -> Iterator[BinaryIO]:
    """The file; stdin for None and "-"."""
    if file is None or file == "-":
        yield sys.stdin.buffer
        return
    with open(file, "rb") as stream:
        yield stream


@contextlib.contextmanager
def _producer(namesrv: str | None, trace: bool, tally: Tally) -> Iterator[Producer]:
    """A producer that reports failures to the tally, and reasons for waiting to the user."""
    from ....client.producer import Producer

    def on_error(failed: list[FailedSend]) -> None:
        tally.on_failed(len(failed), sum(len(each.body) for each in failed), failed[0].error)

    with (
        Producer(COMMAND_GROUP, namesrv=namesrv, trace=trace, on_error=on_error) as producer,
        _waits_told(producer),
    ):
        yield producer


def _send_all(
    send: Callable[[bytes], object],
    producer: Producer,
    bodies: Iterator[bytes],
    tally: Tally,
    progress: Callable[[int, int], None],
) -> int:
    """Sends each body until one is refused, and closes the producer; returns the elapsed milliseconds."""
    began = monotonic_ms()
    with contextlib.suppress(KeyboardInterrupt):  # lines that were read are still sent and counted
        for body in bodies:
            _send_one(send, producer, body, tally)
            if tally.is_refused:
                break
            progress(tally.taken, tally.bytes)
        else:
            tally.is_complete = True
    with contextlib.suppress(ZenitError):  # reported by on_error, each with its count
        producer.close(REST_S if tally.is_refused else None)
    return monotonic_ms() - began


def _check_exists(topic: str, namesrv: str | None) -> None:
    """Raises TopicNotFound: if nothing was sent, no broker has raised it."""
    from ....client.admin import Admin

    with Admin(namesrv) as admin:
        admin.route(topic)


def _complaint(tally: Tally) -> str:
    stopped = "" if tally.is_complete else f"stopped at line {tally.taken}; "
    failed = f"{tally.failed} of {tally.taken} messages failed; the first: {tally.first_error}"
    return stopped + (failed if tally.failed else "what was read is sent")


def _sender(producer: Producer, like: Message, tally: Tally, words: _Words) -> Callable[[bytes], object]:
    """The function that sends one line as a message like `like`; without message objects, unless it has a priority or a lite
    topic, or is for later delivery."""
    if all(each is None for each in (like.delay, like.deliver_at, like.priority, like.lite_topic)):
        return lambda body: producer.post(
            like.topic,
            body,
            like.tags,
            words.key(body),
            properties=like.properties or None,
            sharding_key=words.sharding_key(body),
        )

    def send(body: bytes) -> None:
        def on_done(future: SendFuture) -> None:
            error = future.exception()
            if error is not None:
                tally.on_failed(1, len(body), error)

        key = words.key(body)
        message = replace(like, body=body, keys=() if key is None else (key,))
        producer.send_async(message, sharding_key=words.sharding_key(body)).add_done_callback(on_done)

    return send


@contextlib.contextmanager
def _waits_told(producer: Producer) -> Iterator[None]:
    """While inside, prints why the producer waits for a broker, once per reason."""
    ended = threading.Event()

    def look() -> None:
        told = ""
        while not ended.wait(LOOK_S):
            reason = producer.last_failure
            if reason and reason != told:
                note(f"zenit: trying again: {reason}")
                told = reason

    thread = threading.Thread(target=look, name="zenit-waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(END_S)


def _send_one(send: Callable[[bytes], object], producer: Producer, body: bytes, tally: Tally) -> None:
    """Sends one line. Raises if the first one shows that none will be sent."""
    tally.taken += 1
    tally.bytes += len(body)
    try:
        try:
            send(body)
        except BufferFull:  # the brokers are slower than the file: wait for them
            with contextlib.suppress(ZenitError):
                producer.flush()
            send(body)
    except KeyboardInterrupt:  # not sent, or unknown: not counted as sent
        tally.taken -= 1
        tally.bytes -= len(body)
        raise
    except (MessageIllegal, MessageTooLarge) as error:
        tally.on_failed(1, len(body), error)
    except ZenitError as error:
        if tally.taken == 1:
            raise
        tally.on_failed(1, len(body), error)


def _paced(bodies: Iterator[bytes], rate: float | None) -> Iterator[bytes]:
    """The same bodies, the n-th not before n / rate seconds."""
    if rate is None:
        yield from bodies
        return
    began = monotonic_ms()
    for index, body in enumerate(bodies):
        early_ms = began + index * 1000 / rate - monotonic_ms()
        if early_ms >= EARLY_MS:
            sleep_ms(early_ms)
        yield body


def _sentence(summary: dict[str, Any]) -> str:
    return (
        f"sent {counted(summary['sent'], 'message')}, {readable_bytes(summary['bytes'])}, in {summary['seconds']} s"
        f" ({summary['messages_per_second']:.0f} messages/s), failed {summary['failed']}"
    )
