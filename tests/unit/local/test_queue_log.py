"""A log of the embedded engine, between the thread that flushes it and the one that deletes its topic."""

from __future__ import annotations

import threading
from pathlib import Path

from zenitmq.local.embedded.queue_log import QueueLog
from zenitmq.model.errors import SystemFault
from zenitmq.record.kernel import RunKernel
from zenitmq.store.log.segment import Disk


def test_a_log_is_closed_after_the_flush_that_is_under_way(tmp_path: Path) -> None:
    """The flush thread met a log without files, or a descriptor that was another file's by then."""
    flushing, may_end = threading.Event(), threading.Event()
    open_at_end: list[bool] = []

    def fdatasync(_: int) -> None:
        flushing.set()
        may_end.wait(0.1)  # whoever closes it meanwhile has the time to
        open_at_end.append(bool(queue_log.files) and queue_log.files[-1].segment.fd >= 0)

    kernel = RunKernel(record_max=1 << 16, body_max=1 << 16, index_keys=False)
    queue_log = QueueLog(
        str(tmp_path / "q"), 1, "t", 0, kernel, SystemFault, str(tmp_path), 1 << 16, disk=Disk(fdatasync=fdatasync)
    )
    queue_log.open()
    queue_log.files[-1].segment.open_fd()
    flush = threading.Thread(target=queue_log.sync)
    flush.start()
    assert flushing.wait(5)
    queue_log.close()
    may_end.set()
    flush.join(5)
    assert open_at_end == [True]
    assert queue_log.files == []
    queue_log.sync()
