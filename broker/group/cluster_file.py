"""The id of the cluster that a store belongs to, durably: `cluster.zenit` (docs/formats/cluster-id.md).

A store without an id takes the one that it is told or, if nobody knows one, a random one. An id is *settled* once
a server has let the broker in with it: from then on the store keeps it for good. An unsettled id gives way to the id of
another cluster that was first. The operator's setting `cluster_id` settles an id at once, and is refused if the store has
another; only `zenit store cluster` changes a settled id (store_cluster).
One thread.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, Final

from ...model.cluster_id import check_cluster_id
from ...model.errors import ConfigError, InvalidParameter, StoreFormatError
from ...store.opening.small_file import SYSTEM_FILES, needs_room

FILE_NAME: Final = "cluster.zenit"
VERSION: Final = 1
_BYTES_MAX: Final = 1024


class ClusterFile:
    """The file of one store; made by `open`. `cluster_id`: "" = none yet. `directory`: the store's."""

    def __init__(self, directory: str, cluster_id: str, *, is_settled: bool) -> None:
        self.directory = directory
        self._path = os.path.join(directory, FILE_NAME)
        self.cluster_id = cluster_id
        self.is_settled = is_settled

    @classmethod
    def open(cls, directory: str, *, pinned: str = "") -> ClusterFile:
        """`pinned`: the operator's setting, "" = none.

        Raises ConfigError if the store has another id, StoreFormatError if the file is damaged, OSError.
        """
        SYSTEM_FILES.make_directory(directory)
        cluster_id, is_settled = _read(os.path.join(directory, FILE_NAME))
        file = cls(directory, cluster_id, is_settled=is_settled)
        if pinned and file.is_settled and pinned != file.cluster_id:
            held = (
                f"{file.cluster_id}: the store in {directory} is of that cluster. Change the setting, or store_dir where"
                " another store is meant; to give this store to the other cluster, run: zenit store cluster"
                f" {directory} --id {pinned}"
            )
            raise ConfigError("cluster_id", pinned, held)
        if pinned and not file.is_settled:
            file.adopt(pinned)
            file.settle()
        return file

    @classmethod
    def replace(cls, directory: str, cluster_id: str) -> None:
        """Sets the id for good, on an operator's word, whatever the file held. Raises OSError."""
        cls(directory, cluster_id, is_settled=False).settle()

    def adopt(self, cluster_id: str) -> None:
        """Sets the id until it is settled, or another one is. Raises StoreNotWriteable, OSError."""
        assert not self.is_settled
        if cluster_id != self.cluster_id:
            self._write(cluster_id, is_settled=False)

    def settle(self) -> None:
        """Makes the id the store's for good. Raises StoreNotWriteable, OSError."""
        if not self.is_settled:
            self._write(self.cluster_id, is_settled=True)

    def _write(self, cluster_id: str, *, is_settled: bool) -> None:
        with needs_room():
            SYSTEM_FILES.replace(self._path, encode_cluster_file(cluster_id, is_settled=is_settled).encode("ascii"))
        self.cluster_id, self.is_settled = cluster_id, is_settled


def encode_cluster_file(cluster_id: str, *, is_settled: bool) -> str:
    """One line of JSON, and the CRC-32 of it in a second one."""
    text = json.dumps({"version": VERSION, "cluster_id": cluster_id, "settled": is_settled})
    return f"{text}\n{zlib.crc32(text.encode()):08x}\n"


def decode_cluster_file(data: bytes, path: str = FILE_NAME) -> tuple[str, bool]:
    """(cluster id, whether it is settled). Raises StoreFormatError."""
    text, _, checksum = data.decode("ascii", "replace").partition("\n")
    if checksum != f"{zlib.crc32(text.encode()):08x}\n":
        raise StoreFormatError(
            path,
            "checksum: it is damaged; it says which cluster the store belongs to. Write it again, with the id that the"
            " cluster's other brokers show: zenit store cluster DIR --id ID",
        )
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise StoreFormatError(path, "it is not JSON") from error
    if not isinstance(document, dict):
        raise StoreFormatError(path, "it does not name a cluster")
    if (version := document.get("version")) != VERSION:
        raise StoreFormatError(path, f"it is of version {str(version)[:64]}, and this release knows {VERSION}; upgrade")
    cluster_id, is_settled = document.get("cluster_id"), document.get("settled")
    if not isinstance(cluster_id, str) or not cluster_id or not isinstance(is_settled, bool):
        raise StoreFormatError(path, "it does not name a cluster")
    try:
        return check_cluster_id(cluster_id), is_settled
    except InvalidParameter as error:
        raise StoreFormatError(path, "it does not name a cluster") from error


def _read(path: str) -> tuple[str, bool]:
    data = SYSTEM_FILES.read(path, _BYTES_MAX)
    return ("", False) if data is None else decode_cluster_file(data, path)
