"""Commits a group's offsets: one request a broker, over its shared channel, so that an older one never overtakes.

A commit only moves forward: another member may have owned the queue since, unnoticed. It moves back
after the consumer called seek. A reset by an operator begins a new era at the broker, which accepts nothing of an earlier
one; the names of the queues carry their era.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from ...model.errors import RequestTimeout, ZenitError
from ...model.queue import MessageQueue
from ...remoting.commands import CommitReply, OffsetsReset, UpdateConsumerOffsets
from ..connection.connection import Connection
from ..connection.waiting import Waits

OnCommitted = Callable[[list[tuple[MessageQueue, int]], ZenitError | None], None]
"""Called after each request: the offsets, and why it failed or None. In the thread that got the reply; must not block."""
OnMoved = Callable[[list[MessageQueue]], None]
"""Called with queues whose commits were refused because the group was reset: they must begin anew. Like OnCommitted."""


def commit_nowait(
    connection: Connection,
    group: str,
    offsets: Mapping[MessageQueue, int],
    *,
    timeout_ms: int,
    on_done: OnCommitted,
    on_moved: OnMoved | None = None,
    client_id: str = "",
    may_go_back: Collection[MessageQueue] = (),
) -> None:
    """Sends the offsets; calls `on_done` once for each request.

    `client_id`: the holder of these queues' locks; otherwise "". If another holds one of them, the broker accepts none.
    `may_go_back`: the queues whose offset counts although it is below the committed one.
    """
    for part in _parts(offsets, may_go_back):
        _send_part(connection, group, part, timeout_ms, on_done, on_moved, client_id, part[0][0] not in may_go_back)


def _parts(
    offsets: Mapping[MessageQueue, int], may_go_back: Collection[MessageQueue]
) -> list[list[tuple[MessageQueue, int]]]:
    """The offsets of each request."""
    parts: dict[tuple[str, bool], list[tuple[MessageQueue, int]]] = {}
    for queue, offset in offsets.items():
        parts.setdefault((queue.broker_name, queue in may_go_back), []).append((queue, offset))
    return list(parts.values())


def _send_part(
    connection: Connection,
    group: str,
    part: list[tuple[MessageQueue, int]],
    timeout_ms: int,
    on_done: OnCommitted,
    on_moved: OnMoved | None,
    client_id: str,
    forward_only: bool,
) -> None:
    def on_reply(reply: CommitReply | None, _payload: bytes, error: ZenitError | None) -> None:
        moved = set(reply.moved) if reply is not None else set()
        if moved and on_moved is not None:
            on_moved([queue for queue, _ in part if (queue.topic, queue.queue_id) in moved])
        on_done([(queue, offset) for queue, offset in part if (queue.topic, queue.queue_id) not in moved], error)

    first = part[0][0]
    rows = tuple((queue.topic, queue.queue_id, offset) for queue, offset in part)
    incarnations = tuple(queue.incarnation for queue, _ in part)
    eras = tuple(queue.era for queue, _ in part)
    request = UpdateConsumerOffsets(group, rows, client_id, forward_only, incarnations, eras)
    try:
        address = connection.routes.address_of(first.topic, first.broker_name)
        connection.remoting.send_nowait(address, request, None, timeout_ms=timeout_ms, on_reply=on_reply)
    except ZenitError as error:
        on_done(part, error)


def moved_queues(reset: OffsetsReset) -> dict[MessageQueue, int]:
    """{queue, in the era that begins: the group's offset}."""
    return {
        MessageQueue(reset.topic, reset.broker_name, queue_id, era=reset.era): offset
        for queue_id, offset in reset.offsets
    }


async def commit_and_wait(
    connection: Connection,
    waits: Waits,
    group: str,
    offsets: Mapping[MessageQueue, int],
    *,
    timeout_ms: int,
    on_done: OnCommitted,
    on_moved: OnMoved | None = None,
    client_id: str = "",
    may_go_back: Collection[MessageQueue] = (),
) -> None:
    """The same, and waits for every broker. Raises the first error, RequestTimeout if one did not answer in time."""
    lock = threading.Lock()
    all_answered = waits.new_signal()
    errors: list[ZenitError] = []
    left = len(_parts(offsets, may_go_back))

    def on_part(part: list[tuple[MessageQueue, int]], error: ZenitError | None) -> None:
        nonlocal left
        on_done(part, error)
        with lock:
            left -= 1
            if error is not None:
                errors.append(error)
            is_last = not left
        if is_last:
            all_answered.set()

    commit_nowait(
        connection,
        group,
        offsets,
        timeout_ms=timeout_ms,
        on_done=on_part,
        on_moved=on_moved,
        client_id=client_id,
        may_go_back=may_go_back,
    )
    if offsets and not await all_answered.wait(timeout_ms):
        raise RequestTimeout("a commit of offsets", timeout_ms)
    if errors:
        raise errors[0]
