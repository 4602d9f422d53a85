"""Opens what the security settings of a process name: its key, the trusted file, the door of its sockets."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import field

from ...model.clock import Clock
from ...model.errors import ConfigError, InvalidParameter, KeyFileRefused
from ...model.events.table import LOGIN_REFUSED
from ...model.events.telling import tell
from ...model.plain_dataclass import dataclass
from ...model.security.access_table import AccessTable
from ...model.security.guarded_file import NOT_WRITTEN_BY_OTHERS, read_guarded
from ...model.security.principals import ANY, Binding
from ...model.security.trusted_file import TEXT_MAX, StaticRow, parse_trusted
from .door import Door
from .key_file import KeyFile, read_key_file
from .key_ring import KeyRing
from .refused_rights import RefusedRights
from .secret_keys import read_secret_keys
from .security_config import SecurityConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Secured:
    """What the sockets of a secured process share. `rows`: of the trusted file at the start; `keys`: with which it connects to
    others; `secret_keys`: under which users' secrets are stored."""

    door: Door
    keys: KeyRing
    rows: tuple[StaticRow, ...]
    trusted: str
    secret_keys: tuple[bytes, ...] = field(default=(), repr=False)


def server_keys(rows: tuple[StaticRow, ...]) -> tuple[tuple[str, str], ...]:
    """((address, public key), ...) of the servers whose places the trusted file tells. Of one whose key is being changed both:
    the older first, as `KeyRing.learn` wants them."""
    return tuple((address, key) for row in rows for address in row.addresses for key in reversed(row.user.keys))


def server_ring(key: KeyFile, rows: tuple[StaticRow, ...]) -> KeyRing:
    """The keys with which a server connects to others. What the trusted file says of a place counts before its key file, so
    that a name server's key is changed in one file."""
    told = server_keys(rows)
    named = {address for address, _ in told}
    ring = KeyRing(key.pair, {address: keys for address, keys in key.servers.items() if address not in named})
    ring.learn(told)
    return ring


class TrustedWatch:
    """Reads the trusted file again when it has changed. A file that is wrong changes nothing, nor does one without this server:
    it is half-written, or another cluster's, and would lock everybody out. Loop thread."""

    def __init__(self, secured: Secured, on_rows: Callable[[tuple[StaticRow, ...]], None]) -> None:
        """`on_rows`: what the file says now."""
        self._path = secured.trusted
        self._keys = secured.keys
        self._on_rows = on_rows
        self._seen = _stamp(self._path)
        self._rows = secured.rows

    def look(self) -> None:
        """For a timer."""
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            rows = read_trusted(self._path)
            if not any(self._keys.pair.public in row.user.keys and row.user.binding is not None for row in rows):
                raise KeyFileRefused(self._path, "it has no row with this server's key: is it written in part?")
        except KeyFileRefused as error:
            log.warning("the trusted file has changed and counts as before: %s", error)
            return
        if rows == self._rows:  # written anew as it was
            return
        self._rows = rows
        log.info("the trusted file has changed users=%s", len(rows))
        self._keys.learn(server_keys(rows))
        self._on_rows(rows)


def _stamp(path: str) -> tuple[int, ...] | None:
    """What changes with the file; its time of change too, since `chmod` changes only that."""
    try:
        found = os.stat(os.path.expanduser(path))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a server is: its key, and the trusted file, which has a row for it."""

    key: KeyFile
    rows: tuple[StaticRow, ...]
    table: AccessTable


def read_identity(config: SecurityConfig, wanted: Binding | None = None) -> Identity:
    """What `config.key` and `config.trusted` hold. `wanted`: who the server is by its other settings; ANY in a place is not
    compared. A server with another one's key would run, and be refused by all others.

    Raises ConfigError, KeyFileRefused.
    """
    if not config.trusted:
        raise ConfigError("security.trusted", "", "a file: without it this process would know no other one")
    key = read_key_file(config.key)
    rows = read_trusted(config.trusted)
    table = AccessTable((row.user for row in rows), ())
    own = table.user_of(key.pair.public)
    if own is None or own.binding is None:
        raise ConfigError("security.key", config.key, f"the key of a server in {config.trusted}; it has no row there")
    if wanted is not None:
        for what in ("cluster", "group", "replica"):
            named, has = getattr(wanted, what), getattr(own.binding, what)
            if named != has and ANY not in (named, has):
                expected = f"the key of a server of the {what} {named}; this one is of {has!r}"
                raise ConfigError("security.key", config.key, expected)
    return Identity(key, rows, table)


def open_security(
    config: SecurityConfig, clock: Clock, opened: ExitStack, *, host: str = "", wanted: Binding | None = None
) -> Secured | None:
    """None if the settings want no security. `opened` closes it, after the sockets that are opened later. `host`: where
    the open port is bound; `wanted`: as `read_identity` has it.

    Raises ConfigError, KeyFileRefused.
    """
    if not config.key:
        for name in ("trusted", "open_port", "open_user", "secrets_key"):
            if getattr(config, name):
                raise ConfigError(f"security.{name}", getattr(config, name), "nothing while security.key is empty")
        return None
    if bool(config.open_port) != bool(config.open_user):
        raise ConfigError("security.open_user", config.open_user, "a user if there is an open port, and only then")
    identity = read_identity(config, wanted)
    secret_keys = read_secret_keys(config.secrets_key)
    door = Door(
        identity.key.pair,
        identity.table,
        clock,
        group=wanted.group if wanted is not None else "",
        open_bind=f"{host}:{config.open_port}" if config.open_port else "",
        open_user=config.open_user,
        handshakes_per_second=config.handshakes_per_second,
    )
    opened.enter_context(door)
    if door.is_open_to_servers:
        log.warning("who has no key may do what servers may open_port=%s user=%s", config.open_port, config.open_user)
    door.security.on_refused = tell_login_refused
    door.on_denied = RefusedRights(clock).on_denied
    ring = server_ring(identity.key, identity.rows)
    ring.takes_open = bool(config.open_port)
    return Secured(door, ring, identity.rows, config.trusted, secret_keys)


def tell_login_refused(address: str, _key: str, why: str) -> None:
    """The event of a connection that was not let in; in the thread of the doorkeeper."""
    tell(log, LOGIN_REFUSED, peer=address, why=why)


def read_trusted(path: str) -> tuple[StaticRow, ...]:
    """Raises KeyFileRefused if others may write it: they could name themselves super users."""
    absent = "; `zenit key cluster` and `zenit config machines` write it"
    text = read_guarded(path, forbidden=NOT_WRITTEN_BY_OTHERS, bytes_max=TEXT_MAX, absent=absent)
    try:
        return parse_trusted(text)
    except InvalidParameter as error:
        raise KeyFileRefused(path, str(error)) from None
