"""Groups, controllers and records in ZooKeeper; the one file that imports kazoo.

    /zenit/{cluster}/id                        the cluster's id, made once and never changed
    /zenit/{cluster}/groups/{broker_name}      a group's node: JSON (model/groups/group_codec.py); conditional writes
    /zenit/{cluster}/seen/{broker_name}        what its replicas knew that ZooKeeper did not: JSON, it only grows
    /zenit/{cluster}/controllers/{token}-{n}   a controller that takes part, as long as its session lasts: its address
    /zenit/{cluster}/audit/record-{n}          what operators forced
    /zenit/{cluster}/events/{broker_name}      a group's newest events, a line of JSON each

n is the sequence number ZooKeeper gives; the controller with the lowest leads. A group's node is never deleted and
created again: its versions would start over. kazoo repeats no request of ours by itself. A request that waits for a lost
connection may be sent after our deadline, which conditional writes make harmless (`Unknown`).
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Auth
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from ..model.clock import monotonic_ms
from ..model.errors import InvalidParameter, SightingsDamaged, ZooKeeperUnavailable
from ..model.events.event import with_lines
from ..model.groups.group import GroupNode, KnownGroup, Seen, Sighting
from ..model.groups.group_codec import decode_node, decode_seen, encode_node, encode_seen
from ..model.groups.group_limits import check_name, check_token
from .group_store import (
    EVENT_BYTES_MAX,
    EVENTS_MAX,
    ControllerMember,
    Listener,
    MembersTouched,
    Outcome,
    SessionChanged,
    SessionState,
    Stale,
    Touched,
    Unknown,
    Written,
)

log = logging.getLogger(__name__)


class _NoSecrets(logging.Filter):
    """Drops what kazoo logs of its login, at DEBUG: the password is in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a line about the login."""
        return not (isinstance(record.args, tuple) and any(isinstance(each, Auth) for each in record.args))


kazoo_log: Final = log.getChild("kazoo")
kazoo_log.addFilter(_NoSecrets())

FIRST_VERSION: Final = 0
RECORDS_MAX: Final = 10_000
REMEMBER_TRIES: Final = 5
"""Another controller may store a sighting at the same time, when two believe that they lead."""
_SEQUENCE_DIGITS: Final = 10
_SHARED_FOLDER: Final = "/zenit"
_ADD_ONE: Final = make_acl("world", "anyone", read=True, create=True)

_NO_ANSWER: Final = (
    KazooTimeoutError,
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
)
_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5}
"""Seconds between tries; kazoo's own grow to a minute, and for so long after an outage nobody would lead."""

_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class ZooKeeperStore:
    """A `GroupStore` over one ZooKeeper session. Enter it to connect; leaving it ends the session."""

    def __init__(
        self,
        hosts: str,
        *,
        cluster: str,
        listener: Listener,
        session_timeout_ms: int = 4000,
        timeout_ms: int = 3000,
        login: str = "",
    ) -> None:
        """`hosts`: "a:2181,b:2181". `timeout_ms`: the deadline of every call. `login`: "user:password" of ZooKeeper's digest
        scheme: all nodes of the cluster are then this user's alone; "" = everybody's who reaches ZooKeeper."""
        self._hosts = hosts
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._token = uuid.uuid4().hex  # identifies our own member after a lost connection
        root = f"/zenit/{check_name('cluster', cluster)}"
        self._id = f"{root}/id"
        self._groups = f"{root}/groups"
        self._seen = f"{root}/seen"
        self._controllers = f"{root}/controllers"
        self._audit = f"{root}/audit"
        self._events = f"{root}/events"
        user, _, password = login.partition(":")
        self._only_us = [make_digest_acl(user, password, all=True)] if login else None
        self._root = root
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=dict(_RECONNECT),
            logger=kazoo_log,
            auth_data=[("digest", login)] if login else None,
            default_acl=self._only_us,
        )
        self._client.add_listener(self._on_session)

    def __enter__(self) -> Self:
        """Raises ZooKeeperUnavailable if no session begins within the deadline."""
        try:
            self._client.start(timeout=self._timeout_ms / 1000)
            self._make_folders()
            if self._only_us is not None:
                self._share(self._only_us)
                self._take_possession(self._root)
        except KazooTimeoutError:
            self.__exit__()
            raise ZooKeeperUnavailable(
                f"connect to {self._hosts}", f"no session within {self._timeout_ms} ms; is it running?"
            ) from None
        except ZooKeeperUnavailable:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()

    # ---- groups

    def read(self, broker_name: str) -> KnownGroup | None:
        path, what, end_ms = self._group_path(broker_name), f"read group {broker_name}", self._deadline_ms()
        self._ask(what, end_ms, self._client.sync_async, path)
        try:
            data, status = self._ask(what, end_ms, self._client.get_async, path, watch=self._on_group)
        except NoNodeError:
            return None
        return KnownGroup(decode_node(data, broker_name), status.version)

    def broker_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._children(self._groups, self._on_groups, self._deadline_ms())))

    def create(self, node: GroupNode) -> Outcome:
        path, data, what = self._group_path(node.broker_name), encode_node(node), f"create group {node.broker_name}"
        try:
            self._ask(what, self._deadline_ms(), self._client.create_async, path, data)
        except NodeExistsError:
            return Stale()
        except ZooKeeperUnavailable as error:
            return Unknown(error.reason)
        return Written(FIRST_VERSION)

    def write(self, node: GroupNode, version: int) -> Outcome:
        if version < FIRST_VERSION:
            raise ValueError(f"a write names a version, not {version}, which ZooKeeper takes as any")
        path, data, what = self._group_path(node.broker_name), encode_node(node), f"write group {node.broker_name}"
        try:
            status = self._ask(what, self._deadline_ms(), self._client.set_async, path, data, version=version)
        except (BadVersionError, NoNodeError):
            return Stale()
        except ZooKeeperUnavailable as error:
            return Unknown(error.reason)
        return Written(status.version)

    # ---- what replicas were heard to know

    def seen_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._children(self._seen, None, self._deadline_ms())))

    def read_seen(self, broker_name: str) -> Seen:
        path, end_ms = self._seen_path(broker_name), self._deadline_ms()
        self._ask(f"read seen {broker_name}", end_ms, self._client.sync_async, path)
        return self._read_seen(broker_name, end_ms)[0]

    def remember(self, broker_name: str, sighting: Sighting) -> None:
        self._remember(broker_name, sighting, self._read_seen)

    def renew_seen(self, broker_name: str, sighting: Sighting) -> None:
        self._remember(broker_name, sighting, self._read_seen_whole)

    def _remember(self, broker_name: str, sighting: Sighting, read: Callable[[str, int], tuple[Seen, int]]) -> None:
        path, what, end_ms = self._seen_path(broker_name), f"remember {broker_name}", self._deadline_ms()
        for _ in range(REMEMBER_TRIES):
            seen, version = read(broker_name, end_ms)
            after = seen.with_sighting(sighting)
            if after is seen:
                return
            with contextlib.suppress(NodeExistsError, BadVersionError):
                if version < FIRST_VERSION:
                    self._ask(what, end_ms, self._client.create_async, path, encode_seen(after))
                else:
                    self._ask(what, end_ms, self._client.set_async, path, encode_seen(after), version=version)
                return
        raise ZooKeeperUnavailable(what, "other writers keep changing it")

    def _read_seen(self, broker_name: str, end_ms: int) -> tuple[Seen, int]:
        """The sightings with the node's version; below FIRST_VERSION if there is none."""
        data, version = self._read_seen_bytes(broker_name, end_ms)
        return Seen(broker_name) if data is None else decode_seen(data, broker_name), version

    def _read_seen_whole(self, broker_name: str, end_ms: int) -> tuple[Seen, int]:
        """The same; nothing if it cannot be read."""
        data, version = self._read_seen_bytes(broker_name, end_ms)
        try:
            return Seen(broker_name) if data is None else decode_seen(data, broker_name), version
        except SightingsDamaged:
            return Seen(broker_name), version

    def _read_seen_bytes(self, broker_name: str, end_ms: int) -> tuple[bytes | None, int]:
        what = f"read seen {broker_name}"
        try:
            data, status = self._ask(what, end_ms, self._client.get_async, self._seen_path(broker_name))
        except NoNodeError:
            return None, FIRST_VERSION - 1
        return data, status.version

    # ---- the cluster

    def cluster_id(self) -> str:
        what, end_ms = "read the cluster's id", self._deadline_ms()
        self._ask(what, end_ms, self._client.sync_async, self._id)
        try:
            data, _ = self._ask(what, end_ms, self._client.get_async, self._id)
        except NoNodeError:
            return ""
        try:
            return check_token("cluster_id", data.decode("ascii", "replace"))
        except InvalidParameter as error:
            raise ZooKeeperUnavailable(what, f"{self._id} holds no id: {error}") from error

    def make_cluster_id(self, offered: str) -> str:
        with contextlib.suppress(NodeExistsError):
            what, data = "keep the cluster's id", offered.encode("ascii")
            self._ask(what, self._deadline_ms(), self._client.create_async, self._id, data)
        return self.cluster_id()

    # ---- controllers

    def join(self, address: str) -> None:
        self._make_folders()  # this server may have lost what was there
        end_ms = self._deadline_ms()
        for name in self._children(self._controllers, self._on_members, end_ms):
            if self._is_own(name) and self._is_of_this_session(f"{self._controllers}/{name}", end_ms):
                return
        path, data = f"{self._controllers}/{self._token}-", address.encode("ascii")
        self._ask("join", end_ms, self._client.create_async, path, data, ephemeral=True, sequence=True)

    def members(self) -> tuple[ControllerMember, ...]:
        end_ms = self._deadline_ms()
        found = []
        for name in sorted(self._children(self._controllers, self._on_members, end_ms), key=_sequence):
            path = f"{self._controllers}/{name}"
            try:
                data, _ = self._ask("list controllers", end_ms, self._client.get_async, path)
            except NoNodeError:
                continue  # left meanwhile
            found.append(ControllerMember(data.decode("ascii", "replace"), self._is_own(name)))
        return tuple(found)

    # ---- events

    def add_events(self, broker_name: str, lines: tuple[bytes, ...]) -> None:
        path, what, end_ms = self._events_path(broker_name), f"keep events of {broker_name}", self._deadline_ms()
        for _ in range(REMEMBER_TRIES):
            data, version = self._read_events(broker_name, end_ms)
            after = with_lines(data, lines, lines_max=EVENTS_MAX, bytes_max=EVENT_BYTES_MAX)
            if after == data:
                return
            with contextlib.suppress(NodeExistsError, BadVersionError):
                if version < FIRST_VERSION:
                    self._ask(what, end_ms, self._client.create_async, path, after)
                else:
                    self._ask(what, end_ms, self._client.set_async, path, after, version=version)
                return
        raise ZooKeeperUnavailable(what, "other writers keep changing it")

    def events(self, broker_name: str) -> bytes:
        end_ms = self._deadline_ms()
        self._ask(f"read events of {broker_name}", end_ms, self._client.sync_async, self._events_path(broker_name))
        return self._read_events(broker_name, end_ms)[0]

    def _read_events(self, broker_name: str, end_ms: int) -> tuple[bytes, int]:
        """The history with its node's version; below FIRST_VERSION if there is none."""
        what = f"read events of {broker_name}"
        try:
            data, status = self._ask(what, end_ms, self._client.get_async, self._events_path(broker_name))
        except NoNodeError:
            return b"", FIRST_VERSION - 1
        return data, status.version

    # ---- records

    def append_record(self, record: bytes) -> str:
        path, end_ms = f"{self._audit}/record-", self._deadline_ms()
        made = self._ask("keep a record", end_ms, self._client.create_async, path, record, sequence=True)
        return str(made).rpartition("/")[2]

    def records(self) -> tuple[bytes, ...]:
        end_ms = self._deadline_ms()
        names = sorted(self._children(self._audit, None, end_ms), key=_sequence)[-RECORDS_MAX:]
        read = self._client.get_async
        return tuple(self._ask("read records", end_ms, read, f"{self._audit}/{name}")[0] for name in names)

    # ---- what ZooKeeper tells, on kazoo's threads

    def _on_session(self, state: str) -> None:
        """A server that has an older state than the client has seen refuses it: after it was emptied or set back, for ever.

        So the client forgets what it has seen. A server that only lags behind the others catches up: lists are synced first.
        """
        if state == KazooState.SUSPENDED:
            self._client.last_zxid = 0
        self._listener(SessionChanged(_STATES[state]))

    def _on_group(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # otherwise the session changed, which is reported separately
            self._listener(Touched(event.path.rpartition("/")[2]))

    def _on_groups(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._listener(Touched(None))

    def _on_members(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._listener(MembersTouched())

    # ---- asking

    def _deadline_ms(self) -> int:
        return monotonic_ms() + self._timeout_ms

    def _ask(self, what: str, end_ms: int, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The answer to one request, waited for until `end_ms`.

        Raises ZooKeeperUnavailable if none came or ZooKeeper refused, but NoNodeError, NodeExistsError and
        BadVersionError as they are.
        """
        try:
            return self._ask_where_others_own(what, end_ms, method, *args, **options)
        except NoAuthError as error:
            raise ZooKeeperUnavailable(what, "the nodes are another user's: look at zookeeper_login") from error

    def _ask_where_others_own(
        self, what: str, end_ms: int, method: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """The same; raises NoAuthError as it is, too."""
        try:
            return method(*args, **options).get(timeout=max(1, end_ms - monotonic_ms()) / 1000)
        except (NoNodeError, NodeExistsError, BadVersionError, NoAuthError):
            raise
        except _NO_ANSWER as error:
            raise ZooKeeperUnavailable(what, f"no answer ({type(error).__name__})") from error
        except KazooException as error:
            raise ZooKeeperUnavailable(what, f"refused ({type(error).__name__})") from error

    def _share(self, only_us: list[ACL]) -> None:
        """The folder of all clusters, if it is open to everybody: others may see which there are and add theirs, but delete
        none and change no right. Whoever closes it further by hand is not overruled."""
        end_ms, what = self._deadline_ms(), f"share {_SHARED_FOLDER}"
        with contextlib.suppress(NoAuthError):  # an operator has closed it
            present, _ = self._ask_where_others_own(what, end_ms, self._client.get_acls_async, _SHARED_FOLDER)
            if present == OPEN_ACL_UNSAFE:
                rights = [*only_us, _ADD_ONE]
                self._ask_where_others_own(what, end_ms, self._client.set_acls_async, _SHARED_FOLDER, rights)

    def _take_possession(self, path: str) -> None:
        """Nodes that were made while ZooKeeper was open to everybody become ours alone, from the root on."""
        with contextlib.suppress(NoNodeError):
            present, _ = self._ask(f"look at {path}", self._deadline_ms(), self._client.get_acls_async, path)
            if present != self._only_us:
                self._ask(f"own {path}", self._deadline_ms(), self._client.set_acls_async, path, self._only_us)
            for child in self._ask(f"list {path}", self._deadline_ms(), self._client.get_children_async, path):
                self._take_possession(f"{path}/{child}")

    def _make_folders(self) -> None:
        for path in (self._groups, self._seen, self._controllers, self._audit, self._events):
            self._make_path(path)

    def _make_path(self, path: str) -> None:
        """Creates every folder on the way; existing ones stay."""
        parts = path.split("/")[1:]
        for count in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:count])
            what, end_ms = f"create {folder}", self._deadline_ms()
            if self._ask(what, end_ms, self._client.exists_async, folder) is not None:
                continue  # asked first: who may create nothing in /zenit is refused even where there is nothing to create
            with contextlib.suppress(NodeExistsError):
                shared = OPEN_ACL_UNSAFE if count == 1 else None  # `_share` says what others may
                self._ask(what, end_ms, self._client.create_async, folder, b"", acl=shared)

    def _children(self, path: str, watch: Callable[[WatchedEvent], None] | None, end_ms: int) -> list[str]:
        self._ask(f"list {path}", end_ms, self._client.sync_async, path)
        return list(self._ask(f"list {path}", end_ms, self._client.get_children_async, path, watch=watch))

    def _is_of_this_session(self, path: str, end_ms: int) -> bool:
        """True if our member node will last; one of a session that has ended is deleted."""
        status = self._ask("join", end_ms, self._client.exists_async, path)
        if status is None:
            return False
        session = self._client.client_id
        if session is not None and status.ephemeralOwner == session[0]:
            return True
        with contextlib.suppress(NoNodeError):
            self._ask("join", end_ms, self._client.delete_async, path)
        return False

    def _is_own(self, member: str) -> bool:
        return member.startswith(f"{self._token}-")

    def _seen_path(self, broker_name: str) -> str:
        return f"{self._seen}/{check_name('broker', broker_name)}"

    def _events_path(self, broker_name: str) -> str:
        return f"{self._events}/{check_name('broker', broker_name)}"

    def _group_path(self, broker_name: str) -> str:
        return f"{self._groups}/{check_name('broker', broker_name)}"


def _sequence(name: str) -> int:
    """The sequence number of a node; names without one come last."""
    digits = name[-_SEQUENCE_DIGITS:]
    return int(digits) if digits.isascii() and digits.isdigit() else 1 << 62
