"""Measures where the time of a message goes: in the producer's process and the broker's loop. Nanoseconds per message.

The producer's *build* (the Message object), *encode* and *send* (the call into remoting) are each measured alone, after the
run, on the same data; *queue* is the rest of the run's time per message: waiting for room in the window, for the
interpreter, for a core. The broker reports its own: *receive* (and decode), *stage* (check and stamp), *commit* (write and
dispatch), *reply*; it samples one turn of its loop in several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.clock import monotonic_ns
from ..model.ids import unique_id_prefix
from ..model.message import Message
from ..record.kernel import Accumulator
from .processes import WorkerChannel
from .works.frames import TAG, bodies

Stages = Mapping[str, tuple[int, int]]  # stage -> (nanoseconds, calls) so far

_ROUNDS = 5
_MESSAGES = 20_000
_OBJECT_APIS = ("send", "send_async", "send_batch")


def added_stages(documents: Sequence[Mapping[str, Mapping[str, int]]]) -> Stages:
    """The sums of several brokers' stages."""
    total: dict[str, tuple[int, int]] = {}
    for document in documents:
        for name, entry in document.items():
            spent_ns, calls = total.get(name, (0, 0))
            total[name] = (spent_ns + int(entry["ns"]), calls + int(entry["calls"]))
    return total


def broker_stages(before: Stages, after: Stages, *, batch: float) -> dict[str, float]:
    """Nanoseconds per message between two readings; `batch`: messages per request. Empty if nothing was sampled.

    All stages are of the same sampled turns, so each is divided by the number of requests in "stage".
    """
    requests = after.get("stage", (0, 0))[1] - before.get("stage", (0, 0))[1]
    if requests <= 0:
        return {}
    spent = {name: value[0] - before.get(name, (0, 0))[0] for name, value in after.items()}
    return {name: round(spent_ns / requests / batch, 1) for name, spent_ns in spent.items()}


def client_stages(
    *, build_ns: float, encode_ns: float, send_ns: float, processes: int, messages_per_second: float
) -> dict[str, float]:
    """Nanoseconds per message of one producer's process; `queue` is the rest of its wall-clock time."""
    wall_ns = processes * 1e9 / messages_per_second if messages_per_second else 0.0
    parts = {"build": build_ns, "encode": encode_ns, "send": send_ns}
    parts["queue"] = max(0.0, wall_ns - sum(parts.values()))
    return {name: round(value, 1) for name, value in parts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeJob:
    """The cost of one message before it is sent, with the send method `api`."""

    topic: str
    api: str
    size: int
    keys: int = 0
    tags: bool = False


def measure_encoding(job: EncodeJob, channel: WorkerChannel) -> None:
    """{build_ns, encode_ns} per message: the best of a few rounds, with a core of its own if possible."""
    content = bodies(1024, job.size)
    tags = TAG if job.tags else None
    keys = [f"k{key}" for key in range(job.keys)] or None
    columns: Any = [keys] * len(content) if keys else None
    room = 1024 * (job.size + 512 + 24 * job.keys)
    spare = bytearray(room)
    accumulator = Accumulator(job.topic.encode(), room, id_prefix=unique_id_prefix(bytes(4), 0, 0))

    def build() -> None:
        for body in content:
            Message(job.topic, body, tags, keys or ())

    def encode_each() -> None:
        nonlocal spare
        for body in content:
            accumulator.append(body, tags, keys)
        spare = accumulator.swap(spare)[0]

    def encode_many() -> None:
        nonlocal spare
        accumulator.append_many(content, 0, tags, columns)
        spare = accumulator.swap(spare)[0]

    if not channel.ready({}):
        return
    channel.result(
        {
            "build_ns": _cost_ns(build, len(content)) if job.api in _OBJECT_APIS else 0.0,
            "encode_ns": _cost_ns(encode_many if job.api == "send_bodies" else encode_each, len(content)),
        }
    )


def _cost_ns(work: Callable[[], None], messages: int) -> float:
    best = 0
    for _ in range(_ROUNDS):
        begin_ns = monotonic_ns()
        for _ in range(_MESSAGES // messages):
            work()
        spent = monotonic_ns() - begin_ns
        best = spent if best == 0 else min(best, spent)
    return best / (_MESSAGES // messages * messages)
