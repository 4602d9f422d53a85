"""The named contexts of `zenit context`: names for name servers, in a file of the user.

    $XDG_CONFIG_HOME/zenit/contexts.json    {"contexts": {"prod": "mq1:9876,mq2:9876"}, "current": "prod"}

`$XDG_CONFIG_HOME` defaults to ~/.config. The file is replaced as a whole, is readable by its user only, and one process at
a time changes it, by a lock on its directory. A name has no colon and no dot, so it cannot be an address.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ..client.connection.cluster import ENVIRONMENT_KEY, parse_addresses
from ..model.clock import monotonic_ms, sleep_ms
from ..model.errors import InvalidParameter, StoreFormatError

CONTEXT_KEY: Final = "ZENIT_CONTEXT"
LOCK_WAIT_MS: Final = 5_000
"""For another command that changes the file, which takes only as long as writing a small file."""
LOCK_LOOK_MS: Final = 20
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Contexts:
    """{name: addresses as given by the user}; `current`: the one in use, None if there is none."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def address_of(self, name: str) -> str:
        """Raises InvalidParameter for an unknown name."""
        if name not in self.addresses:
            known = ", ".join(sorted(self.addresses))
            expected = f"one of {known}" if known else "a context; there is none yet: zenit context add NAME HOST:PORT"
            raise InvalidParameter("context", name, expected)
        return self.addresses[name]

    def with_context(self, name: str, addresses: str) -> Contexts:
        """With one more context, or a changed one. Raises InvalidParameter."""
        if not NAME.fullmatch(name):
            raise InvalidParameter("context", name, "letters, digits, - and _, at most 64, a letter or digit first")
        parse_addresses("HOST:PORT", addresses)
        return replace(self, addresses={**self.addresses, name: addresses})

    def using(self, name: str | None) -> Contexts:
        """With that context in use. Raises InvalidParameter."""
        if name is not None:
            self.address_of(name)
        return replace(self, current=name)

    def without(self, name: str) -> Contexts:
        """Without one context; if that was in use, none is. Raises InvalidParameter."""
        self.address_of(name)
        left = {known: addresses for known, addresses in self.addresses.items() if known != name}
        return Contexts(left, None if self.current == name else self.current)


def choose(
    address: str | None, name: str | None, environ: Mapping[str, str], read: Callable[[], Contexts]
) -> str | None:
    """The name servers of a command, from `--namesrv`, `--context`, $ZENIT_NAMESRV, $ZENIT_CONTEXT, the context in use, in
    this order; None if the client is to look for a cluster of this machine. Raises InvalidParameter, and what `read`
    raises.
    """
    if address is not None and name is not None:
        raise InvalidParameter("--context", name, "nothing beside --namesrv")
    if address is not None:
        parse_addresses("--namesrv", address)
        return address
    if name is not None:
        return read().address_of(name)
    if environ.get(ENVIRONMENT_KEY):
        parse_addresses(f"${ENVIRONMENT_KEY}", environ[ENVIRONMENT_KEY])
        return environ[ENVIRONMENT_KEY]
    if environ.get(CONTEXT_KEY):
        return read().address_of(environ[CONTEXT_KEY])
    contexts = read()
    return None if contexts.current is None else contexts.address_of(contexts.current)


def decode_contexts(text: str, path: str) -> Contexts:
    """The reverse of `encode_contexts`. Raises StoreFormatError for anything else."""
    try:
        document = json.loads(text)
        contexts = Contexts()
        for name, addresses in document["contexts"].items():
            contexts = contexts.with_context(name, addresses)
        return contexts.using(document["current"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidParameter):
        reason = "it is not what `zenit context` wrote; mend it, or remove it and add the contexts again"
        raise StoreFormatError(path, reason) from None


def encode_contexts(contexts: Contexts) -> str:
    """The file's text."""
    document = {"contexts": dict(sorted(contexts.addresses.items())), "current": contexts.current}
    return json.dumps(document, indent=1) + "\n"


def contexts_path() -> str:
    """The path of the file."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "zenit", "contexts.json")


def read_contexts() -> Contexts:
    """The stored contexts; empty if there is no file. Raises StoreFormatError, OSError."""
    path = contexts_path()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return decode_contexts(file.read(), path)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()


def change_contexts(change: Callable[[Contexts], Contexts]) -> Contexts:
    """Reads, changes and replaces the file, and returns its new content. Raises InvalidParameter, StoreFormatError, OSError."""
    path = contexts_path()
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    lock = os.open(directory, os.O_RDONLY)
    try:
        _take_lock(lock, directory)
        changed = change(read_contexts())
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(encode_contexts(changed))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        os.close(lock)
    return changed


def _take_lock(lock: int, directory: str) -> None:
    """Raises OSError if another process, perhaps a stopped one, holds the lock for LOCK_WAIT_MS."""
    deadline_ms = monotonic_ms() + LOCK_WAIT_MS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic_ms() >= deadline_ms:
                reason = "another `zenit context` has been changing it for too long; end that one, and try again"
                raise OSError(errno.EWOULDBLOCK, reason, directory) from None
            sleep_ms(LOCK_LOOK_MS)
        else:
            return
