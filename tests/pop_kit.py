"""The table of what is popped, as tests look at it: whole, from outside, and interrupted at any instruction."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from zenitmq.broker.state.pop_queue import indices
from zenitmq.broker.state.pop_table import PopTable

GROUP: Final = "g"
TOPIC: Final = "t"
STATE_FILES: Final = ("pop_table.py", "pop_queue.py")


def apply(table: PopTable, event: dict[str, Any] | tuple[Any, ...], now_ms: int) -> None:
    match event:
        case dict():
            table.on_event(json.loads(json.dumps(event)), now_ms=now_ms, monotonic_ms=now_ms, is_live=True)
        case ("moved", queue_id, offset):
            table.on_moved(GROUP, TOPIC, queue_id, offset)
        case ("deleted",):
            table.on_topic_deleted(TOPIC)
        case ("buried", queue_id, offset, name):
            table.on_buried((GROUP, TOPIC, queue_id), offset, name)


def content(table: PopTable) -> dict[str, Any]:
    """All that a table knows, in plain values."""
    queues = {}
    for (_, _, queue_id), queue in table.all_queues():
        leased = {
            checkpoint.offsets[index]: (
                *(checkpoint.name, index, checkpoint.attempts_of(index), checkpoint.invisible_ms, checkpoint.owner),
                checkpoint.keys[index] if checkpoint.keys else None,
            )
            for checkpoint in queue.all_checkpoints()
            for index in indices(queue.open_bits(checkpoint))
        }
        assert queue.leased == len(leased)
        assert set(leased).isdisjoint(queue.available)
        assert queue.first_open() == min([queue.next, *leased, *queue.available])
        assert queue.first_available(100) == sorted(queue.available.items())
        queues[queue_id] = {
            "next": queue.next,
            "last": queue.last_pop_ms,
            "ordered": queue.is_ordered,
            "available": dict(queue.available),
            "keys": dict(queue.keys),
            "busy": dict(queue.busy),
            "leased": leased,
        }
    assert table.entries == sum(queue.entries for _, queue in table.all_queues())
    acked = {name: bits for name, bits in table._acked.items() if bits}
    return {"queues": queues, "key": table.key, "acked": acked}


def interrupted(steps: dict[int, Callable[[], None]], work: Callable[[], Any]) -> Any:
    """`work()`, with steps[n]() done before the n-th instruction of the table's own code, as if another thread came between;
    those that are left over, at the end."""
    count = 0
    inside = False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count, inside
        if inside or not frame.f_code.co_filename.endswith(STATE_FILES):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            step = steps.pop(count, None)
            count += 1
            if step is not None:
                inside = True
                step()
                inside = False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return work()
    finally:
        sys.settrace(before)
        for number in sorted(steps):
            steps[number]()
