"""The store that a slave of a static master copies: `followed.zenit` in its store directory, {"store_id", "starts"} as JSON.

Only a static master's own disk tells a wiped or set-back store from the one that its slaves have copied. Its epochs would
begin again, and logs of different histories would count as the same. So a slave follows one store only: the first whose
group it hears of, written down before its first byte. A store that already has bytes, but no such file, follows nobody.
Loop thread.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...model.groups.group import Incarnation, KnownGroup
from ...model.groups.group_limits import check_count, check_token
from ...store.opening.small_file import SYSTEM_FILES, needs_room

log = logging.getLogger(__name__)

FILE_NAME: Final = "followed.zenit"


class FollowedStore:
    """At a slave: the store it copies, and that store's start counter. It passes on no group whose master has another store."""

    def __init__(self, directory: str, *, is_empty: bool, on_group: Callable[[KnownGroup], None]) -> None:
        """`is_empty`: of this store's log; a log with bytes but without the file is nobody's copy.

        Raises StoreFormatError, OSError.
        """
        self._path = os.path.join(directory, FILE_NAME)
        self._is_empty = is_empty
        self._on_group = on_group
        self._followed = _read_followed(self._path)
        self._refused: Incarnation | None = None  # already logged

    def on_group(self, known: KnownGroup) -> None:
        """News of the master. Raises StoreNotWriteable if the disk has no room for the file, OSError."""
        master = known.node.master_incarnation
        if master is None or not self._may_follow(master):
            if master != self._refused:
                log.error(
                    "nothing is copied: this store has another history than the master's. If that master has the messages, move"
                    " this directory away and start with an empty one; if this store has them, name this broker static_master"
                )
            self._refused = master
            return
        if master != self._followed:
            with needs_room():
                _write_followed(self._path, master)
            self._followed = master
        self._on_group(known)

    def _may_follow(self, master: Incarnation) -> bool:
        if self._followed is None:
            return self._is_empty
        return master.store_id == self._followed.store_id and master.starts >= self._followed.starts


def forget_followed(directory: str) -> None:
    """The store follows nobody from now on: it has left its group. Raises OSError."""
    path = os.path.join(directory, FILE_NAME)
    if os.path.exists(path):
        SYSTEM_FILES.remove(path)


def _read_followed(path: str) -> Incarnation | None:
    try:
        with open(path, encoding="ascii") as file:
            document = json.load(file)
        return Incarnation(check_token("store_id", document["store_id"]), check_count("starts", document["starts"], 1))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, InvalidParameter) as error:
        raise StoreFormatError(path, f"it does not name a store ({type(error).__name__})") from error


def _write_followed(path: str, master: Incarnation) -> None:
    """Writes the file, durably: before the first byte is copied from that store."""
    SYSTEM_FILES.replace(path, json.dumps({"store_id": master.store_id, "starts": master.starts}).encode("ascii"))
