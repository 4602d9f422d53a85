"""The keys of a secured local cluster: DIR/keys/NAME.key of each process and of its administrator, and the trusted file with
all public ones.

A key is made once. The files that hold addresses are written anew at each start, since a process may have found its port taken;
what an operator added to them stays: users, servers, the other key of a rotation.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..client.connection.cluster import ADMINISTRATOR_KEY
from ..model.security.principals import KEYS_MAX, Binding, RuleEffect, User, UserKind
from ..model.security.rule_text import parse_rule
from ..model.security.trusted_file import StaticRow, encode_trusted
from ..remoting.client import RemotingClient
from ..remoting.security.curve_socket import new_key_pair
from ..remoting.security.key_file import KeyFile, read_key_file, write_key_file
from ..remoting.security.key_ring import KeyRing
from ..remoting.security.opened_security import read_trusted
from ..remoting.security.secret_keys import new_secret_key
from .cluster_plan import LOGIN_FILE, SECRETS_KEY_FILE, TRUSTED_FILE, key_path
from .cluster_record import BROKER, PROXY, ZOOKEEPER, ClusterRecord, ProcessRecord
from .text_file import write_text

ADMINISTRATOR: Final = ADMINISTRATOR_KEY.removesuffix(".key")
GATEWAY: Final = parse_rule(RuleEffect.ALLOW, "pub", "gateway")
"""What the user of a proxy may do: ask who signed, and act for who did."""


def write_keys(record: ClusterRecord, expected: Sequence[ProcessRecord]) -> None:
    """Makes the keys that are missing, and writes all addresses that are known. `expected`: processes yet to be started.

    Raises KeyFileRefused, OSError.
    """
    if not record.keys:
        return
    os.makedirs(record.keys, mode=0o700, exist_ok=True)
    login = os.path.join(record.keys, LOGIN_FILE)
    if not os.path.exists(login):
        write_text(login, f"zenit:{secrets.token_urlsafe(24)}\n", mode=0o600)
    secrets_key = os.path.join(record.keys, SECRETS_KEY_FILE)
    if not os.path.exists(secrets_key):
        write_text(secrets_key, new_secret_key() + "\n", mode=0o600)
    rows = [StaticRow(User(ADMINISTRATOR, (_public(record, ADMINISTRATOR),), UserKind.SUPER))]
    yet = tuple(process for process in expected if record.find(process.role, process.name) is None)
    for process in (*record.processes, *yet):
        if process.role == ZOOKEEPER:
            continue
        public, is_broker = _public(record, process.name), process.role == BROKER
        if process.role == PROXY:
            rows.append(StaticRow(User(process.name, (public,), rules=(GATEWAY,))))
            continue
        group = (process.group or process.name) if is_broker else ""
        server = User(process.name, (public,), UserKind.SERVER, binding=Binding(record.cluster, group, process.name))
        rows.append(StaticRow(server, () if is_broker else (process.address,)))
    trusted = os.path.join(record.keys, TRUSTED_FILE)
    merged = merged_rows(rows, read_trusted(trusted) if os.path.exists(trusted) else ())
    write_text(trusted, encode_trusted(merged))
    servers = {address: row.user.keys for row in reversed(merged) for address in row.addresses}  # those made now win
    asking = (process.name for process in (*record.processes, *yet) if process.role in (BROKER, PROXY))
    for name in (ADMINISTRATOR, *asking):
        key = _key(record, name)
        known = {**key.servers, **servers}
        if dict(key.servers) != known:
            write_key_file(key_path(record, name), KeyFile(name, key.pair, known), replace=True)


def merged_rows(made: Sequence[StaticRow], there: Sequence[StaticRow]) -> list[StaticRow]:
    """The rows of a trusted file that is written anew: those made now, with what an operator has added to them, such as the
    other key of a rotation; then the operator's own. A row with a key that another one has now is left out. Pure."""
    by_name = {row.user.name: row for row in there}
    taken = {key for row in made for key in row.user.keys}
    rows = []
    for row in made:
        old = by_name.pop(row.user.name, row).user
        others = [key for key in old.keys if key not in taken]
        keys = (*row.user.keys, *others)[:KEYS_MAX]
        rows.append(replace(row, user=replace(old, keys=keys, kind=row.user.kind, binding=row.user.binding)))
    return rows + [row for row in by_name.values() if not taken.intersection(row.user.keys)]


def administrator(record: ClusterRecord) -> RemotingClient:
    """A client with the administrator's key, that knows each process's own; without keys in a cluster that has none."""
    if not record.keys:
        return RemotingClient()
    servers = {
        process.address: (_public(record, process.name),)
        for process in record.processes
        if process.role not in (ZOOKEEPER, PROXY)
    }
    return RemotingClient(keys=KeyRing(_key(record, ADMINISTRATOR).pair, servers))


def _key(record: ClusterRecord, name: str) -> KeyFile:
    path = key_path(record, name)
    if not os.path.exists(path):
        write_key_file(path, KeyFile(name, new_key_pair(), {}))
    return read_key_file(path)


def _public(record: ClusterRecord, name: str) -> str:
    return _key(record, name).pair.public
