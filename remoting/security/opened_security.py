"""Opens what the security settings of a process name: its key, the trusted file, the door of its sockets."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from typing import Final

from ...model.clock import Clock
from ...model.errors import ConfigError, InvalidParameter, KeyFileRefused
from ...model.plain_dataclass import dataclass
from ...model.security.access_table import AccessTable
from ...model.security.trusted_file import StaticRow, parse_trusted
from .door import Door
from .key_file import read_key_file
from .key_ring import KeyRing
from .security_config import SecurityConfig

NOT_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Secured:
    """What the sockets of a secured process share. `rows`: of the trusted file; `keys`: with which it connects to others."""

    door: Door
    keys: KeyRing
    rows: tuple[StaticRow, ...]

    @property
    def server_keys(self) -> dict[str, str]:
        """{address: public key} of the servers whose places the trusted file tells."""
        return {address: row.user.keys[0] for row in self.rows for address in row.addresses if row.user.keys}


def open_security(
    config: SecurityConfig, clock: Clock, opened: ExitStack, *, host: str = "", group: str = ""
) -> Secured | None:
    """None if the settings want no security. `opened` closes it, after the sockets that are opened later. `host`: where
    the open port is bound; `group`: the broker name.

    Raises ConfigError, KeyFileRefused.
    """
    if not config.key:
        for name in ("trusted", "open_port", "open_user"):
            if getattr(config, name):
                raise ConfigError(f"security.{name}", getattr(config, name), "nothing while security.key is empty")
        return None
    if not config.trusted:
        raise ConfigError("security.trusted", "", "a file: without it this process would know no other one")
    if bool(config.open_port) != bool(config.open_user):
        raise ConfigError("security.open_user", config.open_user, "a user if there is an open port, and only then")
    key = read_key_file(config.key)
    rows = _read_trusted(config.trusted)
    table = AccessTable((row.user for row in rows), ())
    own = table.user_of(key.pair.public)
    if own is None or own.binding is None:
        raise ConfigError("security.key", config.key, f"the key of a server in {config.trusted}; it has no row there")
    if group and own.binding.group not in ("*", group):
        raise ConfigError(
            "security.key", config.key, f"a key of a server of {group}; this one is of {own.binding.group!r}"
        )
    door = Door(
        key.pair,
        table,
        clock,
        group=group,
        open_bind=f"{host}:{config.open_port}" if config.open_port else "",
        open_user=config.open_user,
        handshakes_per_second=config.handshakes_per_second,
    )
    opened.enter_context(door)
    places = {address: row.user.keys[0] for row in rows for address in row.addresses if row.user.keys}
    return Secured(door, KeyRing(key.pair, {**key.servers, **places}), rows)


def _read_trusted(path: str) -> tuple[StaticRow, ...]:
    """Raises KeyFileRefused if others may write it: they could name themselves super users."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileRefused(path, f"it cannot be read ({getattr(error, 'strerror', 'no text')})") from None
    if mode & NOT_BY_OTHERS:
        raise KeyFileRefused(path, f"others than its owner may write it (mode {mode & 0o777:o}): chmod 644 {path}")
    try:
        return parse_trusted(text)
    except InvalidParameter as error:
        raise KeyFileRefused(path, str(error)) from None
