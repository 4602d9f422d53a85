"""What a replica knows about itself, durably: `replica.zenit` in its store directory, rewritten whole at each change.

    identity, starts   the incarnation: the identity is made once, the counter grows at each `open` (R1)
    promised           the highest epoch seen; no cut of the log lowers it (R2)
    intent             a cut of the log in progress: (epoch, offset), until it is complete (R4)
    group_id           of the group that let this replica in first: it joins no other until it has left that one for good
    left               the group that it has left, and the highest epoch it knew then: it never joins that one again
    boot, clean end    of the last incarnation that the controller had registered: the kernel's boot id, and the end of its
                       log if it stopped cleanly (R9)

An incarnation that was never registered takes no part in anything and writes nothing to the log, so it leaves the last two
as they are: a possible loss of an earlier incarnation is reported until a controller has registered it. If unflushed bytes
were ever counted (`ran_async`), every incarnation reports it until one has flushed everything, in an epoch that counts only
flushed bytes: the page cache of an earlier incarnation may be lost later.

Each change replaces the file and returns once that is durable (small_file). One thread.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import Any, Final

from ...model.errors import InvalidParameter, StoreFormatError
from ...model.groups.group import Incarnation
from ...model.plain_dataclass import dataclass
from ...store.opening.small_file import SYSTEM_FILES, SmallFiles

FILE_NAME: Final = "replica.zenit"
UNFINISHED_COPY: Final = b"a copy that has not ended\n"
"""Its content while a store is being copied into its directory."""
NO_END: Final = -1
LEFT_GROUPS_MAX: Final = 32
VERSION: Final = 1
_BYTES_MAX: Final = 4096
_COUNT_MAX: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What this incarnation reports about the last registered one when it registers. `marker_end`: NO_END without a marker.

    `ran_async`: bytes were counted that were perhaps never flushed. `set_back`: the controller knew a higher
    counter. `has_hole`: recovery found damage at `log_end`, with more of the log behind it.
    """

    has_clean_marker: bool
    same_boot: bool
    log_end: int
    marker_end: int
    ran_async: bool
    set_back: bool
    has_hole: bool


@dataclass(frozen=True, slots=True)
class StoreMembership:
    """A store's membership in a group. `group_id`: "" under a static master, and if it is in no group; `epoch`: the highest
    epoch promised to it, 0 if none; `left_epoch`: the highest before it left another group."""

    group_id: str = ""
    epoch: int = 0
    left_epoch: int = 0

    @property
    def is_member(self) -> bool:
        """True if other replicas may have its log too, and use its epochs."""
        return bool(self.group_id) or self.epoch > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The content of the file; `intent_epoch` 0: no intent."""

    version: int = VERSION
    store_id: str
    starts: int = 0
    promised: int = 0
    intent_epoch: int = 0
    intent_offset: int = 0
    boot_id: str = ""
    clean_end: int = NO_END
    ran_async: bool = False
    set_back: bool = False
    group_id: str = ""
    left_groups: tuple[str, ...] = ()
    left_epoch: int = 0


class ReplicaFiles:
    """The file of one store; made by `open`, once for each start of the process."""

    def __init__(self, path: str, facts: _Facts, small_files: SmallFiles) -> None:
        self.small_files = small_files
        self._path = path
        self._facts = facts
        self._is_registered = False
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        small_files: SmallFiles = SYSTEM_FILES,
        new_store_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> ReplicaFiles:
        """Reads the file of a store directory, or creates it, and counts this start.

        Raises StoreFormatError if it is damaged, OSError.
        """
        small_files.make_directory(directory)
        path = os.path.join(directory, FILE_NAME)
        facts = _read(path, small_files)
        if facts is None:
            facts = _Facts(store_id=new_store_id(), boot_id=small_files.boot_id())
        files = cls(path, facts, small_files)
        files._change(starts=facts.starts + 1)
        return files

    # ---- what it says

    @staticmethod
    def membership(directory: str, small_files: SmallFiles = SYSTEM_FILES) -> StoreMembership:
        """The membership of a store that is not open yet. Raises StoreFormatError if its file is damaged, OSError."""
        facts = _read(os.path.join(directory, FILE_NAME), small_files)
        return StoreMembership() if facts is None else StoreMembership(facts.group_id, facts.promised, facts.left_epoch)

    @property
    def incarnation(self) -> Incarnation:
        """This incarnation."""
        return Incarnation(self._facts.store_id, self._facts.starts)

    @property
    def promised(self) -> int:
        """The highest promised epoch; 0 if there is none."""
        return self._facts.promised

    @property
    def intent(self) -> tuple[int, int] | None:
        """(epoch, offset) of a cut in progress."""
        facts = self._facts
        return (facts.intent_epoch, facts.intent_offset) if facts.intent_epoch else None

    @property
    def group_id(self) -> str:
        """The id of the replica's group; "" if it never joined one."""
        return self._facts.group_id

    def start_facts(self, log_end: int, *, has_hole: bool = False) -> StartFacts:
        """What to register; `log_end`: where recovery found the log's end, or its first hole."""
        facts = self._facts
        return StartFacts(
            has_clean_marker=facts.clean_end != NO_END,
            same_boot=bool(facts.boot_id) and facts.boot_id == self.small_files.boot_id(),
            log_end=log_end,
            marker_end=facts.clean_end,
            ran_async=facts.ran_async,
            set_back=facts.set_back,
            has_hole=has_hole,
        )

    # ---- what is written down; all raise OSError

    @classmethod
    def join(cls, directory: str, group_id: str, *, newest_epoch: int) -> tuple[str, int]:
        """Makes the store part of a group, on an operator's word that its log is a copy of the group's, or becomes the group's.
        "" makes a group id from the store's identity. `newest_epoch`: the last row of its epochs; no lower one is obeyed.

        Returns the group's id, and the highest promised epoch. No process may have the store open. Raises
        StoreFormatError, InvalidParameter if the store is in another group already or has left this one, OSError.
        """
        path = os.path.join(directory, FILE_NAME)
        facts = _read(path, SYSTEM_FILES)
        if facts is None:
            facts = _Facts(store_id=uuid.uuid4().hex)
        wanted = group_id or facts.group_id or facts.store_id
        if facts.group_id not in ("", wanted):
            raise InvalidParameter("group_id", wanted, f"{facts.group_id}, of which this store is already")
        if wanted in facts.left_groups:
            raise InvalidParameter(
                "group_id", wanted, "no group that this store has left: it may hold other messages since"
            )
        promised = max(facts.promised, newest_epoch)
        files = cls(path, facts, SYSTEM_FILES)
        files._change(group_id=wanted, promised=promised)
        return wanted, promised

    @classmethod
    def leave(cls, directory: str, *, newest_epoch: int) -> StoreMembership:
        """Takes the store out of its group for good, on an operator's word: it gets another identity, so that no controller
        accepts its log as the group's again. `newest_epoch`: the last row of its epochs; later ones are above all it knew.

        Returns its former membership; if that has no epoch, the store was in no group, and nothing has changed. No
        process may have
        the store open. Raises StoreFormatError if a cut of its log is half done, or if the list of groups that it has left is
        full, OSError.
        """
        path = os.path.join(directory, FILE_NAME)
        facts = _read(path, SYSTEM_FILES)
        was = cls.membership(directory)
        if facts is None or not was.is_member:
            return was
        if facts.intent_epoch:
            raise StoreFormatError(
                path, "its log is half cut; start it once more as a replica of its group, and stop it"
            )
        left_groups = facts.left_groups
        if facts.group_id and facts.group_id not in left_groups:  # a static master's group has no id
            left_groups += (facts.group_id,)
        if len(left_groups) > LEFT_GROUPS_MAX:
            raise StoreFormatError(
                path,
                f"this store has left {LEFT_GROUPS_MAX} groups, and may forget none; let an empty one take its place",
            )
        left_epoch = max(facts.promised, facts.left_epoch, newest_epoch)
        left = _Facts(store_id=uuid.uuid4().hex, left_groups=left_groups, left_epoch=left_epoch)
        files = cls(path, left, SYSTEM_FILES)
        files._write(left)
        return was

    @classmethod
    @contextmanager
    def copying(cls, source: str, target: str) -> Iterator[StoreMembership]:
        """Surrounds an operator's copying of the store `source`, a replica's, into the directory `target`. At its end
        the target is another replica of the same group, with an identity of its own: no earlier incarnation of it has
        counted any bytes, so it can have forgotten none. Until then, and if the copying breaks off, no broker starts there.

        Yields the membership of both. No process may have either open. Raises StoreFormatError if a cut of the log is
        half done, OSError.
        """
        facts = _read(os.path.join(source, FILE_NAME), SYSTEM_FILES)
        if facts is None or facts.intent_epoch:
            raise StoreFormatError(
                source, "its log is half cut; start it once more as a replica of its group, and stop it"
            )
        copied = _Facts(
            store_id=uuid.uuid4().hex,
            promised=facts.promised,
            group_id=facts.group_id,
            left_groups=facts.left_groups,
            left_epoch=facts.left_epoch,
        )
        path = os.path.join(target, FILE_NAME)
        SYSTEM_FILES.replace(path, UNFINISHED_COPY)
        yield StoreMembership(copied.group_id, copied.promised, copied.left_epoch)
        files = cls(path, copied, SYSTEM_FILES)
        files._write(copied)

    @classmethod
    @contextmanager
    def restoring(cls, target: str, group_id: str, *, promised: int, is_left: bool) -> Iterator[None]:
        """Surrounds an operator's restoring of a backup into the directory `target`. At its end the store is a replica of that
        group, with an identity of its own, which obeys no epoch below `promised`; with `is_left` it is one that has left the
        group for good; with "" it is in none. Until then, and if it breaks off, no broker starts there. Raises OSError."""
        path = os.path.join(target, FILE_NAME)
        SYSTEM_FILES.replace(path, UNFINISHED_COPY)
        yield
        if is_left:
            left_groups = (group_id,) if group_id else ()
            facts = _Facts(store_id=uuid.uuid4().hex, left_groups=left_groups, left_epoch=promised)
        elif group_id:
            facts = _Facts(store_id=uuid.uuid4().hex, promised=promised, group_id=group_id)
        else:
            SYSTEM_FILES.remove(path)
            return
        files = cls(path, facts, SYSTEM_FILES)
        files._write(facts)

    def start_above(self, starts: int) -> None:
        """The controller knows a start counter of this store that is not below ours: the disk was set back."""
        self._change(starts=max(self._facts.starts, starts) + 1, set_back=True)

    def note_registered(self, group_id: str) -> None:
        """The controller has registered this incarnation and the report on the last one: from now on this one counts.
        `group_id`: the group's.

        Must be durable before this incarnation writes to the log: otherwise an old clean marker would seem to cover its bytes.
        """
        if not self._is_registered:
            boot_id = self.small_files.boot_id()
            self._change(boot_id=boot_id, clean_end=NO_END, set_back=False, group_id=self._facts.group_id or group_id)
            self._is_registered = True

    def note_async(self) -> None:
        """From now on positions count written bytes, flushed or not. Due before the first such position is reported."""
        if not self._facts.ran_async:
            self._change(ran_async=True)

    def note_all_flushed(self) -> None:
        """Everything that was ever counted is flushed, and from now on only flushed bytes count."""
        if self._facts.ran_async:
            self._change(ran_async=False)

    @property
    def ran_async(self) -> bool:
        """True if bytes were counted that were perhaps never flushed."""
        return self._facts.ran_async

    def promise(self, epoch: int) -> None:
        """Promises an epoch: no lower one is obeyed from now on."""
        if epoch > self._facts.promised:
            self._change(promised=epoch)

    def intend(self, epoch: int, offset: int) -> None:
        """The log is about to be cut to end at `offset`."""
        assert epoch > 0
        self._change(intent_epoch=epoch, intent_offset=offset)

    def clear_intent(self) -> None:
        """The cut is complete."""
        if self._facts.intent_epoch:
            self._change(intent_epoch=0, intent_offset=0)

    def note_disk_failed(self) -> None:
        """A sync failed: its bytes may be lost, although the kernel runs on. Any thread.

        The next incarnation must not claim that the page cache has kept what this one wrote (R9).
        """
        self._change(boot_id="", clean_end=NO_END)

    def mark_clean(self, log_end: int) -> None:
        """The clean marker, at the end of the process: the store is closed and all of it, up to `log_end`, is on the disk.

        An incarnation that was not registered, or whose log is half cut, writes none.
        """
        if self._is_registered and self.intent is None:
            self._change(clean_end=log_end)

    def _change(self, **changes: Any) -> None:
        with self._lock:  # one thread calls this, except when the disk fails under another
            self._write(replace(self._facts, **changes))

    def _write(self, facts: _Facts) -> None:
        self.small_files.replace(self._path, _encode(facts).encode("ascii"))
        self._facts = facts


def _encode(facts: _Facts) -> str:
    """One line of JSON, and the CRC-32 of it in a second one."""
    text = json.dumps(asdict(facts))
    return f"{text}\n{zlib.crc32(text.encode()):08x}\n"


def _read(path: str, small_files: SmallFiles) -> _Facts | None:
    """The content; None if there is no file. Raises StoreFormatError, OSError."""
    data = small_files.read(path, _BYTES_MAX)
    if data is None:
        return None
    if data == UNFINISHED_COPY:
        raise StoreFormatError(
            path, "this directory is a copy that broke off; delete it, and copy or restore the store once more"
        )
    text, _, checksum = data.decode("ascii", "replace").partition("\n")
    if checksum != f"{zlib.crc32(text.encode()):08x}\n":
        raise StoreFormatError(
            path,
            "checksum: it is damaged; it says what this replica has promised and must not be guessed. "
            "Where another replica leads, move the store's directory away and start with an empty one: "
            "it copies the group's log",
        )
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreFormatError(path, "it is no JSON") from error
    if not isinstance(document, dict):
        raise StoreFormatError(path, "it is no JSON object")
    if document.get("version") != VERSION:
        raise StoreFormatError(
            path, f"it is of version {str(document.get('version'))[:64]}, and this release knows {VERSION}; upgrade"
        )
    return _facts_of(path, document)


def _facts_of(path: str, document: dict[str, Any]) -> _Facts:
    """Checks each field's type and range. A missing field gets its default: an older release did not write it, called the
    group's id its origin, and recorded only one left group."""
    if "group_id" not in document and "origin" in document:
        document["group_id"] = document.pop("origin")
    if "left_groups" not in document and "left_group" in document:
        document["left_groups"] = [document.pop("left_group")]
    groups = document.get("left_groups", [])
    if not isinstance(groups, list) or len(groups) > LEFT_GROUPS_MAX or any(type(name) is not str for name in groups):
        raise StoreFormatError(path, f"'left_groups' is {str(groups)[:64]!r}")
    document["left_groups"] = tuple(name for name in groups if name)
    types = {each.name: type(each.default) for each in fields(_Facts) if each.name != "store_id"} | {"store_id": str}
    for name, value in document.items():
        if type(value) is not types.get(name):
            raise StoreFormatError(path, f"{name[:64]!r} is {str(value)[:64]!r}")
        if type(value) is int and not (NO_END if name == "clean_end" else 0) <= value < _COUNT_MAX:
            raise StoreFormatError(path, f"{name!r} is {value}")
    if not document.get("store_id"):
        raise StoreFormatError(path, "it names no store")
    return _Facts(**document)
