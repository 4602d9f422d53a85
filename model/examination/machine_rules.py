"""Judges a machine: limits, disk, clock, memory and kernel settings, for what a server needs of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..plain_dataclass import dataclass
from .finding import Finding, Severity

DESCRIPTORS_WANTED: Final = 65_536
DESCRIPTORS_LEAST: Final = 4_096
MAPS_WANTED: Final = 65_530
"""The kernel's default of vm.max_map_count. Each file of the log and of a queue that is open takes one."""
BACKLOG_WANTED: Final = 1_024
SWAPPINESS_MOST: Final = 10
CLOCK_OFF_MS: Final = 500
"""Clocks that are further apart than this make delayed messages and offsets by time visibly wrong."""
CLOCK_WRONG_MS: Final = 60_000
FREE_RATIO_LEAST: Final = 0.1
INODES_LEAST: Final = 10_000
MEMORY_LEAST_BYTES: Final = 256 << 20

_VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
_LAYERED: Final = frozenset({"overlay", "aufs"})
_REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs"}
)


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The filesystem of a directory. `inodes_free` None: it counts none."""

    directory: str
    filesystem: str
    is_read_only: bool
    is_writable: bool
    total_bytes: int
    free_bytes: int
    inodes_free: int | None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What a process can read of its machine; None where it cannot.

    `descriptors`: its hard limit of open files, -1 = none. `is_clock_kept`: whether the kernel's clock is synchronized with
    another. `memory_available_bytes`: of the machine, or what its control group still leaves.
    """

    descriptors: int
    is_clock_kept: bool | None = None
    memory_available_bytes: int | None = None
    swappiness: int | None = None
    swap_bytes: int | None = None
    maps_max: int | None = None
    backlog_max: int | None = None
    disk: DiskFacts | None = None


def judge(facts: MachineFacts, *, with_store: bool) -> Iterator[Finding]:
    """All findings, one for each check. `with_store`: the server keeps a log: a broker."""
    yield _descriptors(facts.descriptors)
    if facts.is_clock_kept is not None:
        yield _clock(facts.is_clock_kept)
    if facts.memory_available_bytes is not None:
        yield _memory(facts.memory_available_bytes)
    if facts.backlog_max is not None:
        yield _backlog(facts.backlog_max)
    if not with_store:
        return
    if facts.swappiness is not None and facts.swap_bytes is not None:
        yield _swap(facts.swappiness, facts.swap_bytes)
    if facts.maps_max is not None:
        yield _maps(facts.maps_max)
    if facts.disk is not None:
        yield from _disk(facts.disk)


def _descriptors(limit: int) -> Finding:
    check = "open files"
    if limit < 0:
        return Finding(Severity.OK, check, "no limit")
    text = f"at most {limit:,}"
    if limit >= DESCRIPTORS_WANTED:
        return Finding(Severity.OK, check, text)
    severity = Severity.NOTE if limit >= DESCRIPTORS_LEAST else Severity.WARNING
    remedy = (
        f"raise the hard limit to {DESCRIPTORS_WANTED:,} (LimitNOFILE= of systemd, ulimit -Hn): a connection takes one"
    )
    return Finding(severity, check, text, remedy)


def _clock(is_kept: bool) -> Finding:
    if is_kept:
        return Finding(Severity.OK, "clock", "synchronized")
    remedy = "run chrony or systemd-timesyncd: delays and offsets by time follow this clock"
    return Finding(Severity.WARNING, "clock", "the kernel says that nothing synchronizes it", remedy)


def _memory(available_bytes: int) -> Finding:
    text = f"{_size(available_bytes)} available"
    if available_bytes >= MEMORY_LEAST_BYTES:
        return Finding(Severity.OK, "memory", text)
    remedy = f"leave it at least {_size(MEMORY_LEAST_BYTES)}, or the kernel may end it"
    return Finding(Severity.WARNING, "memory", text, remedy)


def _backlog(limit: int) -> Finding:
    text = f"net.core.somaxconn = {limit}"
    if limit >= BACKLOG_WANTED:
        return Finding(Severity.OK, "connections", text)
    remedy = f"sysctl -w net.core.somaxconn={BACKLOG_WANTED}: clients that all reconnect at once are refused otherwise"
    return Finding(Severity.NOTE, "connections", text, remedy)


def _swap(swappiness: int, swap_bytes: int) -> Finding:
    if not swap_bytes or swappiness <= SWAPPINESS_MOST:
        text = "none" if not swap_bytes else f"vm.swappiness = {swappiness}"
        return Finding(Severity.OK, "swap", text)
    remedy = (
        f"sysctl -w vm.swappiness={SWAPPINESS_MOST}: reading an old log pushes the broker's own memory out otherwise"
    )
    return Finding(Severity.NOTE, "swap", f"vm.swappiness = {swappiness}", remedy)


def _maps(limit: int) -> Finding:
    text = f"vm.max_map_count = {limit:,}"
    if limit >= MAPS_WANTED:
        return Finding(Severity.OK, "mapped files", text)
    remedy = f"sysctl -w vm.max_map_count={MAPS_WANTED}: each open file of a store is mapped"
    return Finding(Severity.WARNING, "mapped files", text, remedy)


def _disk(disk: DiskFacts) -> Iterator[Finding]:
    where = f"{disk.directory} ({disk.filesystem})"
    if disk.is_read_only or not disk.is_writable:
        reason = "is mounted read-only" if disk.is_read_only else "may not be written by this user"
        yield Finding(
            Severity.PROBLEM, "disk", f"{where} {reason}", "mount it writable, owned by the user of the broker"
        )
        return
    if disk.filesystem in _VOLATILE:
        remedy = "set store_dir to a directory on a disk: after a restart of the machine every message is gone"
        yield Finding(Severity.WARNING, "disk", f"{where} is memory", remedy)
    elif disk.filesystem in _LAYERED:
        remedy = "mount a volume at store_dir: with the container every message is gone"
        yield Finding(Severity.WARNING, "disk", f"{where} belongs to the container itself", remedy)
    elif disk.filesystem in _REMOTE:
        remedy = "use a disk of the machine: a sync over the network is slow, and may not be one"
        yield Finding(Severity.WARNING, "disk", f"{where} is on another machine", remedy)
    else:
        yield Finding(Severity.OK, "disk", where)
    ratio = disk.free_bytes / disk.total_bytes if disk.total_bytes else 0.0
    text = f"{_size(disk.free_bytes)} of {_size(disk.total_bytes)} free"
    if disk.inodes_free is not None and disk.inodes_free < INODES_LEAST:
        remedy = "delete small files there: a full disk stops the group's writes"
        yield Finding(Severity.WARNING, "disk space", f"{text}, but room for {disk.inodes_free:,} files only", remedy)
    elif ratio < FREE_RATIO_LEAST:
        remedy = "lower store.retention_bytes or enlarge the disk: a full one stops the group's writes"
        yield Finding(Severity.WARNING, "disk space", text, remedy)
    else:
        yield Finding(Severity.OK, "disk space", text)


def judge_clock(offset_ms: float, uncertainty_ms: float) -> Finding:
    """How far a server's clock is from ours: `offset_ms`, known to `uncertainty_ms` (half of the time its answer took)."""
    apart_ms = max(0.0, abs(offset_ms) - uncertainty_ms)
    direction = "ahead of" if offset_ms > 0 else "behind"
    text = f"{_milliseconds(apart_ms)} {direction} this machine's"
    if apart_ms < CLOCK_OFF_MS:
        return Finding(
            Severity.OK, "clock apart", f"within {_milliseconds(max(1.0, abs(offset_ms)))} of this machine's"
        )
    severity = Severity.WARNING if apart_ms < CLOCK_WRONG_MS else Severity.PROBLEM
    return Finding(severity, "clock apart", text, "synchronize both machines (chrony, systemd-timesyncd)")


def _milliseconds(value: float) -> str:
    return f"{value / 1000:,.1f} s" if value >= 1000 else f"{value:.0f} ms"


def _size(count: int) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count >> 10} KiB"
