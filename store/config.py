"""The settings of a store, each with what it trades. Pure.

An existing store keeps the file sizes that its files have; the settings apply to new stores.
"""

from __future__ import annotations

from typing import Final

from ..model.config import check_settings, setting
from ..model.errors import ConfigError
from ..model.plain_dataclass import dataclass

_KIB = 1024
_MIB = 1024 * 1024
_HOUR_MS = 3_600_000

SEGMENT_BYTES_LIMIT: Final = 1 << 30
RECORD_BYTES_LIMIT: Final = 65 * _MIB
"""The limits of `segment_bytes` and `record_bytes_max`: decoders of other processes' bytes rely on them."""

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNITS_MS = {"s": 1000, "m": 60_000, "h": _HOUR_MS, "d": 24 * _HOUR_MS}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """The [store] table. Times in ms, sizes in bytes, ratios of the disk's size."""

    segment_bytes: int = setting(
        1 << 30,
        "size of one commit log file; small ones roll and expire often. A store keeps the size that it was made with; all"
        " replicas of a group need the same",
        minimum=4096,
        maximum=SEGMENT_BYTES_LIMIT,
    )
    consume_queue: str = setting(
        "file",
        "what keeps the consume queues. file: fastest, up to some ten thousand queues; rocksdb: for very many. A store needs"
        " the one that made its queues; zenit store convert changes it. both: the other one follows, compared, until it is set",
        choices=("file", "rocksdb", "both"),
    )
    queue_file_units: int = setting(
        300_000, "messages that one consume queue file indexes (20 bytes each, sparse)", minimum=16, maximum=10_000_000
    )
    queue_files_open_max: int = setting(
        256, "consume queue files held open; more are opened when needed", minimum=1, maximum=100_000
    )
    light_queues_max: int = setting(
        1_000_000,
        "light queues that a broker keeps; a send that would make one more is refused. Each takes some 500 bytes of memory,"
        " and of the disk 200 bytes with rocksdb, 12 KiB with file",
        minimum=0,
        maximum=100_000_000,
    )
    index_enabled: bool = setting(
        True, "index messages by unique id, key and tag: costs up to a third of the ceiling, gives queries by key"
    )
    index_tags: bool = setting(
        True, "index the tags as a key too, as RocketMQ 5.5 does: one more entry for each message with tags"
    )
    index_slots: int = setting(5_000_000, "hash slots of one index file", minimum=16, maximum=100_000_000)
    index_entries: int = setting(20_000_000, "entries of one index file", minimum=16, maximum=100_000_000)
    flush_mode: str = setting(
        "async", "sync: a send is answered once it is on the disk; async: at once", choices=("async", "sync")
    )
    flush_interval_ms: int = setting(500, "async: how much a power cut may cost", minimum=1, maximum=60_000)
    sync_flush_timeout_ms: int = setting(
        5000, "sync: how long a send waits for the disk before it is told so", minimum=1, maximum=600_000
    )
    preallocate_segments: int = setting(
        2, "commit log files made ready ahead; each takes its whole size on disk", minimum=0, maximum=16
    )
    recycle_segments: int = setting(
        2,
        "expired commit log files kept to be written over, ten times faster than new ones; of queue and index files, up to a "
        "quarter of their bytes each, one file at least",
        minimum=0,
        maximum=64,
    )
    body_bytes_max: int = setting(4 * _MIB, "largest message body", minimum=1, maximum=64 * _MIB)
    record_bytes_max: int = setting(
        4 * _MIB + 64 * _KIB, "largest record: body, topic, properties", minimum=1024, maximum=RECORD_BYTES_LIMIT
    )
    drain_bytes: int = setting(
        _MIB,
        "bytes of requests taken in one turn: more share one write, but their senders wait longer and then all at once",
        minimum=4 * _KIB,
    )
    frame_bytes_max: int = setting(8 * _MIB, "largest request", minimum=64 * _KIB, maximum=256 * _MIB)
    retention_ms: int = setting(72 * _HOUR_MS, "age at which a commit log file may go", minimum=1, online=True)
    retention_bytes: int = setting(
        0, "size of the commit log over which the oldest files go; 0 = no bound", minimum=0, online=True
    )
    disk_clean_ratio: float = setting(
        0.75,
        "disk use at which all files past their age go at once, not one a second",
        minimum=0,
        maximum=1,
        online=True,
    )
    disk_force_ratio: float = setting(
        0.85, "disk use at which the oldest files go whatever their age", minimum=0, maximum=1, online=True
    )
    disk_refuse_ratio: float = setting(0.90, "disk use at which sends are refused", minimum=0, maximum=1, online=True)
    delete_unconsumed: bool = setting(
        False,
        "true: retention may delete what a group has not consumed (an event says what); false: the disk fills",
        online=True,
    )
    pull_messages_max: int = setting(4096, "messages in one pull reply", minimum=1, maximum=65_536)
    pull_bytes_max: int = setting(_MIB, "bytes in one pull reply, as far as memory holds them", minimum=4 * _KIB)
    pull_cold_bytes_max: int = setting(
        256 * _KIB, "bytes in one pull reply that must be read from the disk", minimum=4 * _KIB
    )
    pull_units_max: int = setting(
        16_384, "messages one pull may look at when its tags match few", minimum=16, maximum=1_000_000
    )
    compaction_interval_ms: int = setting(
        15 * 60_000,
        "how often compacted topics are compacted; also at once where retention waits for it. Each time costs CPU in proportion"
        " to what was sent to them",
        minimum=1000,
        maximum=24 * _HOUR_MS,
    )
    compaction_tombstone_ms: int = setting(
        24 * _HOUR_MS,
        "how long a compacted topic keeps the tombstone of a key, at least: a reader that takes longer from the first offset to"
        " the last may keep keys that are gone",
        minimum=0,
    )
    compaction_dead_ratio: float = setting(
        0.5,
        "share of a queue's compacted bytes that later records have replaced at which its files are merged: less takes less"
        " disk and reads faster, and is written more often",
        minimum=0,
        maximum=1,
    )
    compaction_memory_bytes: int = setting(
        100 * _MIB,
        "memory of a compaction, beside a byte for each compacted record of the queue at hand; with less it reads more often",
        minimum=_MIB,
    )
    query_messages_max: int = setting(64, "messages in one reply to a query by key", minimum=1, maximum=1024)
    checkpoint_interval_ms: int = setting(
        1000, "how often indexes are flushed: shorter replays less after a crash", minimum=50, maximum=60_000
    )
    verify_body_crc: bool = setting(True, "recovery checks the checksum of each body no append checksum covers")
    timer_buffer_bytes: int = setting(
        8 * _MIB,
        "memory that the index of delayed messages fills, about 280 bytes a message, before it writes a file; up to three "
        "times as much while it does, and as much of what it has read, at most 8 MiB",
        minimum=64 * _KIB,
        maximum=1024 * _MIB,
    )
    delay_levels: str = setting(DELAY_LEVELS, "what delay levels 1, 2, ... mean; units s, m, h, d")

    def __post_init__(self) -> None:
        """Raises ConfigError if settings contradict each other."""
        check_settings(self)
        if self.record_bytes_max <= self.body_bytes_max:
            raise ConfigError(
                "record_bytes_max", self.record_bytes_max, f"more than body_bytes_max {self.body_bytes_max}"
            )
        if not self.disk_clean_ratio <= self.disk_force_ratio <= self.disk_refuse_ratio:
            raise ConfigError("disk_force_ratio", self.disk_force_ratio, "disk_clean_ratio <= it <= disk_refuse_ratio")
        parse_delay_levels(self.delay_levels)


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Milliseconds of levels 1, 2, ... Raises ConfigError."""
    levels = []
    for word in text.split():
        number, unit = word[:-1], word[-1]
        if unit not in _UNITS_MS or not number.isascii() or not number.isdigit():
            raise ConfigError("delay_levels", text, "blank-separated durations such as 1s 5m 2h")
        levels.append(int(number) * _UNITS_MS[unit])
    if not levels:
        raise ConfigError("delay_levels", text, "at least one duration")
    return tuple(levels)
