"""What we write is byte for byte what RocketMQ 5.5 wrote for the same messages at the same times.

Its records, with the broker's fields zeroed as a producer sends them, go through `stage` and `commit`; those that its
broker makes itself (delayed, committed, sent back) through `stage_record`. Then every file is compared.
"""

import pytest
from store_kit import StillClock, index_bytes, make_store, tree, unpack_golden

from zenitmq.record.codes import RUN_BLANK
from zenitmq.record.kernel import RunKernel, StoredMessage, decode_batch
from zenitmq.record.new_record import NewRecord
from zenitmq.store.message_store import MessageStore

SEGMENT = 65_536


def as_sent(run: bytes, messages: list[StoredMessage]) -> bytes:
    """The run with queue id, offsets, store time and store host zero."""
    data, at = bytearray(run), 0
    for message in messages:
        for begin, end in ((12, 16), (20, 36), (56, 72)):
            data[at + begin : at + end] = bytes(end - begin)
        at += message.size_bytes
    return bytes(data)


def feed(store: MessageStore, run: bytes, kernel: RunKernel) -> None:
    messages = list(decode_batch(run))
    topic = kernel.topic.decode()
    if all(m.sys_flag & 0xC == 0 and m.reconsume_times == 0 and m.prepared_transaction_offset == 0 for m in messages):
        begin = store.arena.used
        store.arena.view[begin : begin + len(run)] = as_sent(run, messages)
        store.stage(begin, begin + len(run), topic=topic, queue_id=kernel.queue_id, count=len(messages))
        return
    for message in messages:
        store.stage_record(
            NewRecord(
                topic=topic,
                queue_id=message.queue_id,
                body=message.body_as_stored,
                properties=message.properties_as_stored,
                flag=message.flag,
                sys_flag=message.sys_flag,
                born_timestamp_ms=message.born_at_ms,
                born_host=message.born_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset,
            )
        )


@pytest.mark.parametrize("name", ["file-clean", "file-killed"])
@pytest.mark.parametrize("commit_every", [1, 3, 1000])
def test_every_file_is_rocketmq_s(tmp_path, name: str, commit_every: int) -> None:
    golden, ours = unpack_golden(name, tmp_path), tmp_path / "ours"
    log = b"".join(tree(golden, "commitlog").values())
    kernel = RunKernel(record_max=SEGMENT, body_max=SEGMENT)
    clock = StillClock()
    sizes = {"segment_bytes": SEGMENT, "queue_file_units": 100, "index_slots": 500, "index_entries": 1000}
    with make_store(ours, clock, **sizes) as store:
        at = staged = 0
        while True:
            kernel.clear()
            if kernel.scan(log, at, len(log), at, True):
                clock.time_ms = kernel.store_timestamp_ms
                feed(store, log[at : kernel.end], kernel)
                staged += 1
                if staged % commit_every == 0:
                    store.commit()
                at = kernel.end
            elif kernel.status == RUN_BLANK:
                at = (at // SEGMENT + 1) * SEGMENT
            else:
                break
        store.commit()
        assert staged > 100
        assert tree(ours, "commitlog") == tree(golden, "commitlog")
        assert tree(ours, "consumequeue") == tree(golden, "consumequeue")
        assert index_bytes(ours) == index_bytes(golden)
