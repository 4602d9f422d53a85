"""Writes the small text files of a cluster: its record, ZooKeeper's settings."""

from __future__ import annotations

import os
from contextlib import suppress


def write_text(path: str, text: str, *, mode: int = 0o666) -> None:
    """Replaces a small file as a whole; `mode`: of the new one, without the umask. Raises OSError, which names the file."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:  # a failed write names none: on a full disk
        with suppress(OSError):
            os.unlink(temporary)
        raise OSError(error.errno, error.strerror, path) from error
