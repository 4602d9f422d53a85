"""Measures the cost of many queues and many segments in a store: `python -m zenitmq.bench.scale.many_queues`.

A store of 12,800 queues is written, made durable, and asked each second what may expire while a group has not consumed any
queue; it is opened after a kill. Another of 2,000 segments is stopped, reopened and flushed. Wall-clock times depend on
what else runs on the machine, so the times of single steps have the process's CPU time beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ...broker.service import SWITCH_INTERVAL_S
from ...model.clock import SystemClock, monotonic_ns, process_cpu_ns, sleep_ms
from ...model.ids import HostAddress
from ...record.kernel import encode_record
from ...store.config import StoreConfig
from ...store.expiry import NOTHING
from ...store.message_store import MessageStore
from ...store.retention_needs import FixedNeeds
from ..environment import environment

QUEUES_OF_TOPIC: Final = 16
SEGMENT_BYTES: Final = 8 << 20
SMALL_SEGMENT_BYTES: Final = 4096
ROUND_WAIT_MS: Final = 600_000
FLUSH_TIMEOUT_MS: Final = 60_000
NEEDED: Final = 4  # the offset of the last message that each queue gets
QUIET_TURNS: Final = 2_000

CONFIG: Final = StoreConfig(
    segment_bytes=SEGMENT_BYTES,
    preallocate_segments=1,
    recycle_segments=1,
    index_enabled=False,
    checkpoint_interval_ms=100,
    retention_bytes=1 << 20,
)


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.scale.many_queues", description=__doc__)
    parser.add_argument("--queues", type=int, default=12_800, help="a multiple of 16")
    parser.add_argument("--segments", type=int, default=2_000)
    parser.add_argument("--killed", metavar="DIR", help=argparse.SUPPRESS)  # the part that ends like a killed process
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if options.killed:
        _fill_and_die(options.killed, options.queues)
    with tempfile.TemporaryDirectory() as directory:
        document = {
            "queues": options.queues,
            **_work(os.path.join(directory, "work"), options.queues),
            **_open_after_kill(os.path.join(directory, "killed"), options.queues),
            "segments": options.segments,
            **_first_flush(os.path.join(directory, "segments"), options.segments),
            "environment": environment("."),
        }
    print(json.dumps(document, indent=1))


def _store(directory: str, config: StoreConfig) -> MessageStore:
    return MessageStore(
        directory,
        config,
        store_host=HostAddress.parse("127.0.0.1", 10911),
        clock=SystemClock(),
        on_flushed=_nothing,
        on_poisoned=_end,
    )


def _put(store: MessageStore, queue: int, body: bytes) -> None:
    topic = f"t{queue // QUEUES_OF_TOPIC}"
    record = encode_record(topic=topic.encode(), body=body)
    store.arena.view[: len(record)] = record
    store.stage(0, len(record), topic, queue % QUEUES_OF_TOPIC, 1)
    store.commit()


def _fill(store: MessageStore, queues: int) -> None:
    for queue in range(queues):
        _put(store, queue, bytes(100))
    store.flush_all(FLUSH_TIMEOUT_MS)


def _fill_and_die(directory: str, queues: int) -> None:
    store = _store(directory, CONFIG).__enter__()
    _fill(store, queues)
    os._exit(0)


# ---- a running store


def _work(directory: str, queues: int) -> dict[str, Any]:
    needs = {(f"t{queue // QUEUES_OF_TOPIC}", queue % QUEUES_OF_TOPIC): 0 for queue in range(queues)}
    with _store(directory, CONFIG) as store:
        store.protect(FixedNeeds(needs))
        _fill(store, queues)
        quiet = [_turn_ns(store) for _ in range(QUIET_TURNS)]
        rounds = [_persist(store, queues) for _ in range(3)]
        beside = [turn for turns, _ in rounds for turn in turns]
        return {
            "turn_ms": _summary(quiet),
            "turn_beside_persisting_ms": _summary(beside),
            "persist_round_s": [round(duration_ns / 1e9, 2) for _, duration_ns in rounds],
            **_expire(store, queues, needs),
        }


def _turn_ns(store: MessageStore) -> int:
    begun = monotonic_ns()
    _put(store, 0, bytes(100))
    return monotonic_ns() - begun


def _persist(store: MessageStore, queues: int) -> tuple[list[int], int]:
    """(durations of turns meanwhile, its own duration), ns: appends a message to each queue and makes all durable."""
    _fill(store, queues)
    wanted = store.written
    begun, turns = monotonic_ns(), []
    store.on_tick(_now_ms())
    while store.statistics().dispatched_offset < wanted:
        if monotonic_ns() - begun > ROUND_WAIT_MS * 1_000_000:
            raise TimeoutError("the queues do not become durable")
        turns.append(_turn_ns(store))
        store.on_tick(_now_ms())
        sleep_ms(1)
    return turns, monotonic_ns() - begun


def _expire(store: MessageStore, queues: int, needs: dict[tuple[str, int], int]) -> dict[str, Any]:
    """Ticks while a group holds the oldest segment, then after it has released it."""
    end = store.written + 3 * SEGMENT_BYTES
    while store.written < end:
        _put(store, 0, bytes(100_000))
    _persist(store, queues)
    held = [_measured(lambda: store.on_tick(_now_ms())) for _ in range(20)]
    needs.update(dict.fromkeys(needs, NEEDED))  # in the newest segment: all queues are examined
    needs["t0", 0] = NOTHING
    surveyed = [_measured(lambda: store.on_tick(_now_ms()))]
    while store.has_upkeep_left:
        surveyed.append(_measured(lambda: store.on_tick(_now_ms())))
    return {
        "tick_while_held_ms": _summary([wall for wall, _ in held]),
        "tick_while_held_cpu_ms": _summary([cpu for _, cpu in held]),
        "tick_while_surveying_ms": _summary([wall for wall, _ in surveyed]),
        "tick_while_surveying_cpu_ms": _summary([cpu for _, cpu in surveyed]),
        "survey_ticks": len(surveyed),
    }


# ---- starts


def _open_after_kill(directory: str, queues: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "zenitmq.bench.scale.many_queues", "--killed", directory, "--queues", str(queues)]
    subprocess.run(command, check=True)  # noqa: S603 - our own interpreter and arguments
    store = _store(directory, CONFIG)
    wall, cpu = _measured(store.__enter__)
    store.__exit__(None, None, None)
    again_wall, again_cpu = _measured(store.__enter__)
    store.__exit__(None, None, None)
    return {
        "open_after_kill_s": _seconds(wall),
        "open_after_kill_cpu_s": _seconds(cpu),
        "open_after_stop_s": _seconds(again_wall),
        "open_after_stop_cpu_s": _seconds(again_cpu),
    }


def _first_flush(directory: str, segments: int) -> dict[str, Any]:
    config = replace(CONFIG, segment_bytes=SMALL_SEGMENT_BYTES, preallocate_segments=0)
    with _store(directory, config) as store:
        while store.written < segments * SMALL_SEGMENT_BYTES:
            _put(store, 0, bytes(3_500))
    with _store(directory, config) as store:
        _put(store, 0, bytes(100))
        wall, _ = _measured(lambda: store.flush_all(FLUSH_TIMEOUT_MS))
    return {"first_flush_after_stop_ms": round(wall / 1e6, 2)}


# ---- figures


def _measured(work: Callable[[], object]) -> tuple[int, int]:
    """(wall-clock time, CPU time of the process), ns."""
    begun, cpu = monotonic_ns(), process_cpu_ns()
    work()
    return monotonic_ns() - begun, process_cpu_ns() - cpu


def _summary(values_ns: list[int]) -> dict[str, float]:
    ordered = sorted(values_ns)
    places = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "max": -1}
    return {name: round(ordered[place] / 1e6, 3) for name, place in places.items()}


def _seconds(duration_ns: int) -> float:
    return round(duration_ns / 1e9, 2)


def _now_ms() -> int:
    return SystemClock().now_ms()


def _nothing() -> None:
    """There are no waiters."""


def _end(error: Exception) -> None:
    sys.exit(f"the disk failed: {error}")


if __name__ == "__main__":
    main()
