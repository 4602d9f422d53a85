"""`zenit bench backup`: how fast a store is backed up to a directory, the backup is read whole, and a store is made of it.

A store of its own is filled without a broker, on the disk of `--dir`; the target and the store that is made lie there too, so
that disk reads and writes everything. The page cache holds what was just written, if it is large enough for that.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, Final

from ...bench.environment import environment, kernel_kind
from ...bench.options import BenchOptions, BenchProgress, Report
from ...broker.config import BrokerConfig
from ...broker.group.epoch_file import begin_epoch
from ...deploy.backup.backup import Backup, BackupRules
from ...deploy.backup.directory_target import DirectoryTarget
from ...deploy.backup.log_source import BackupSource
from ...deploy.backup.restore import RestoreChoice, restore
from ...deploy.backup.verify import find_damage, read_manifest_of
from ...model.clock import SystemClock, monotonic_ns
from ...model.errors import StorePoisoned
from ...model.ids import HostAddress
from ...record.kernel import encode_record
from ...store.config import StoreConfig
from ...store.message_store import MessageStore

WORK: Final = "backup"
GROUP: Final = "bench"
_TOPIC: Final = b"bench-backup"
_BATCH_BYTES: Final = 256 << 10
_BATCH_MAX: Final = 4096


def run_backup(options: BenchOptions, report: Report) -> dict[str, Any]:
    """{work, log_bytes, backup, verify, restore: bytes a second, ...}. Raises StorePoisoned, OSError."""
    with tempfile.TemporaryDirectory(prefix="zenit-bench-", dir=options.directory) as base:
        store, target, made = (os.path.join(base, name) for name in ("store", "target", "made"))
        os.mkdir(target)
        segment_bytes = min(256 << 20, max(16 << 20, int(options.log_gib * (1 << 28))) >> 12 << 12)
        config = BrokerConfig(store=StoreConfig(segment_bytes=segment_bytes))
        log_bytes = _fill(store, config, options, report)
        to = DirectoryTarget(target)
        backup = Backup(BackupSource(store), to, GROUP, BackupRules())
        seconds = {
            "backup": _timed("backup", report, lambda tell: backup.run(with_tail=True, report=tell)),
            "verify": _timed(
                "verify", report, lambda tell: find_damage(to, f"{GROUP}/", read_manifest_of(to, GROUP), tell)
            ),
            "restore": _timed("restore", report, lambda tell: restore(to, GROUP, made, config, RestoreChoice(), tell)),
        }
        return {
            "work": WORK,
            "log_bytes": log_bytes,
            "size": options.size,
            **{f"{name}_seconds": round(each, 3) for name, each in seconds.items()},
            **{f"{name}_bytes_per_second": round(log_bytes / each, 1) for name, each in seconds.items()},
            "kernel": kernel_kind(),
            "environment": environment(base),
        }


def _end(error: StorePoisoned) -> None:
    raise error


def _fill(directory: str, config: BrokerConfig, options: BenchOptions, report: Report) -> int:
    """Returns how long the log is."""
    body = os.urandom(options.size)
    record = encode_record(topic=_TOPIC, body=body)
    count = max(1, min(_BATCH_MAX, _BATCH_BYTES // len(record)))
    batch = record * count
    begun_ns = monotonic_ns()
    with MessageStore(
        directory,
        config.store,
        store_host=HostAddress.parse("127.0.0.1", 10911),
        clock=SystemClock(),
        on_flushed=lambda: None,
        on_poisoned=_end,
    ) as store:
        begin_epoch(directory, store.begin, store.written)
        number = 0
        while store.written < options.log_gib * (1 << 30):
            store.arena.view[: len(batch)] = batch
            store.stage(0, len(batch), _TOPIC.decode(), number % 4, count)
            store.commit()
            number += 1
            if number % 64 == 0:
                seconds = (monotonic_ns() - begun_ns) / 1e9
                report(BenchProgress(phase="fill", elapsed_seconds=seconds, total_seconds=0.0, bytes=store.written))
        return int(store.written)


def _timed(phase: str, report: Report, work: Callable[[Callable[[int, int], None]], object]) -> float:
    """How many seconds the work took."""
    begun_ns = monotonic_ns()

    def tell(done: int, _total: int) -> None:
        seconds = (monotonic_ns() - begun_ns) / 1e9
        report(BenchProgress(phase=phase, elapsed_seconds=seconds, total_seconds=0.0, bytes=done))

    work(tell)
    return (monotonic_ns() - begun_ns) / 1e9
