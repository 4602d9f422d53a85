"""Reads a file on which others must have no hand: a key, a login, the list of whom a server trusts."""

from __future__ import annotations

import os
import stat
from typing import Final

from ...model.errors import KeyFileRefused

PRIVATE: Final = stat.S_IRWXG | stat.S_IRWXO
"""Others may not even read it."""
NOT_WRITTEN_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_REFUSALS: Final = {PRIVATE: ("use", "600"), NOT_WRITTEN_BY_OTHERS: ("write", "644")}


def read_guarded(path: str, *, forbidden: int, bytes_max: int, absent: str = "") -> str:
    """The text of the file. `forbidden`: PRIVATE or NOT_WRITTEN_BY_OTHERS. `absent`: what to do where there is none.

    Raises KeyFileRefused also if the file belongs to another account than root or that of this process: its owner may
    change it whatever its mode says.
    """
    try:
        with open(os.path.expanduser(path), "rb", opener=_opened) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise KeyFileRefused(path, "it is no file")
            _check_owner(path, found.st_uid)
            if found.st_mode & forbidden & ~_allowed(found.st_uid, os.geteuid()):
                use, mode = _REFUSALS[forbidden]
                has = f"{found.st_mode & 0o777:o}"
                raise KeyFileRefused(path, f"others than its owner may {use} it (mode {has}): chmod {mode} {path}")
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise KeyFileRefused(path, f"it cannot be read ({error.strerror}){absent}") from None
    if len(data) > bytes_max:
        raise KeyFileRefused(path, f"it is longer than {bytes_max} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise KeyFileRefused(path, "it is no text") from None


def _allowed(owner: int, own: int) -> int:
    """The bits that do no harm: root may let the group of a process that is not root read a secret. So systemd and Kubernetes
    mount it, mode 440, and only root changes who is in the group."""
    return stat.S_IRGRP if owner == 0 != own else 0


def _check_owner(path: str, owner: int) -> None:
    own = os.geteuid()
    if owner not in (0, own):
        raise KeyFileRefused(path, f"it belongs to another account (user id {owner}): chown {own} {path}")


def _opened(path: str, flags: int) -> int:
    """Without waiting: a named pipe would wait for its writer, before we could see that it is no file."""
    return os.open(path, flags | os.O_NONBLOCK)
