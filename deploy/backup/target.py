"""Where a backup lies: a directory or a bucket, behind six methods.

An *object* is written once, whole, and never changed. The one file that is replaced is the manifest; it is replaced only
if it still is what its writer has read (`version`), so two writers never mix. Names are relative, `a/b-c.d`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Listed:
    """An object that is there. `modified_ms`: when it was written, by the target's clock."""

    name: str
    size_bytes: int
    modified_ms: int


class BackupTarget(Protocol):
    """All methods raise BackupTargetFailed, which says what to do. One thread; `get` any thread."""

    @property
    def name(self) -> str:
        """For people: without secrets."""

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        """Writes a new object; durable and whole when the call returns. If it raises, also what `parts` raises, there is
        none."""

    def get(self, name: str, begin: int, end: int) -> bytes:
        """Bytes [begin, end) of an object, at least one. Raises BackupObjectMissing, BackupDamaged if it is shorter."""

    def list(self, prefix: str) -> list[Listed]:
        """The objects whose names begin with `prefix`, which ends with a slash; in any order."""

    def delete(self, name: str) -> None:
        """Deletes an object; nothing if there is none."""

    def read(self, name: str) -> tuple[bytes, str] | None:
        """A manifest and its version; None if there is none."""

    def replace(self, name: str, data: bytes, version: str | None) -> str:
        """Makes `data` the manifest if it still is of that version (None: there is none); returns the new version.

        Raises BackupConflict if it is another one by now.
        """
