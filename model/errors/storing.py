"""Errors of the store and its files. Pure."""

from __future__ import annotations

from .base import ZenitError


class StoreNotWriteable(ZenitError):
    """The store takes no writes at present (disk full, shutting down); reads go on. Args: reason."""

    code, retriable = 14, True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the store takes no writes: {self.reason}"


class CorruptRecordError(ZenitError):
    """A record on disk is damaged. Args: offset, size_bytes, reason."""

    code = 9010

    def __init__(self, offset: int, size_bytes: int, reason: str = "checksum") -> None:
        super().__init__(offset, size_bytes, reason)
        self.offset = offset
        self.size_bytes = size_bytes
        self.reason = reason

    def __str__(self) -> str:
        return f"damaged record at offset {self.offset} ({self.size_bytes} bytes): {self.reason}"


class StoreLocked(ZenitError):
    """Another process has this store open. Args: store_dir."""

    code = 9011

    def __init__(self, store_dir: str) -> None:
        super().__init__(store_dir)
        self.store_dir = store_dir

    def __str__(self) -> str:
        return f"store {self.store_dir} is open in another process; stop it first, or use another directory"


class StoreFormatError(ZenitError):
    """This version cannot open a file of the store. Args: path, reason."""

    code = 9012

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot open {self.path}: {self.reason}"


class StoreInGroup(ZenitError):
    """The store of a replica was opened by a broker that is in no group: alone, it would write other records than the
    other replicas, under the same epochs. Args: store_dir, group_id ("" = under a static master), epoch (the
    highest it knows)."""

    code = 9016

    def __init__(self, store_dir: str, group_id: str, epoch: int) -> None:
        super().__init__(store_dir, group_id, epoch)
        self.store_dir = store_dir
        self.group_id = group_id
        self.epoch = epoch

    def __str__(self) -> str:
        group = f"the group of id {self.group_id}" if self.group_id else "a group with a static master"
        setting = "controllers" if self.group_id else "static_master"
        return (
            f"store {self.store_dir} is a replica's of {group}, in epoch {self.epoch}: start it with `{setting}` as before; to"
            f" remove it from that group for good, run: zenit store leave {self.store_dir}"
        )


class StoreNotEmpty(ZenitError):
    """A store with messages is assigned to another cluster without --force. Args: store_dir, cluster_id (the
    other cluster's), log_end (bytes)."""

    code = 9017

    def __init__(self, store_dir: str, cluster_id: str, log_end: int) -> None:
        super().__init__(store_dir, cluster_id, log_end)
        self.store_dir = store_dir
        self.cluster_id = cluster_id
        self.log_end = log_end

    def __str__(self) -> str:
        return (
            f"store {self.store_dir} has a log of {self.log_end} bytes: its messages and offsets would become those"
            " of the cluster"
            f" with the id {self.cluster_id}. Use --force if you want that; otherwise start that broker with an empty store_dir"
        )


class StorePoisoned(ZenitError):
    """A write or flush of the disk failed: nothing more is acknowledged, and the process must exit. Args: what."""

    code = 9014

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the disk failed: {self.what}; this process stops, the next start re-reads the disk"


class NotFlushed(ZenitError):
    """A group changes to synchronous flushing only after its members have flushed their logs.

    Args: group, replicas (as text).
    """

    code, retriable = 9043, True

    def __init__(self, group: str, replicas: str) -> None:
        super().__init__(group, replicas)
        self.group = group
        self.replicas = replicas

    def __str__(self) -> str:
        return (
            f"group {self.group!r}: {self.replicas} did not flush the whole log yet; try again, or wait until it left"
            " the in-sync set"
        )
