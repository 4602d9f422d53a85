"""The data pipeline's requests to a cluster: stored query offsets, and retention holds.

*Query offsets* are one JSON object per query, kept until it is dropped or replaced by one of a higher version. Every group
of the cluster keeps a copy, so no single group must be up: the pipeline copies the object from groups that have it to the
others. It is returned only when every group with a leader has a copy; if its creator died before that, nothing has begun.
If two brokers nevertheless have different objects, QueryOffsetsDiffer says so, and nothing is chosen by guess.

A *hold* keeps retention from deleting what is being read (broker/retention_holds); it expires by itself.

Every call may be repeated, and is, until it is answered or its time is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from ...model.clock import monotonic_ms, sleep_ms
from ...model.errors import (
    HoldNotFound,
    NoRoute,
    QueryOffsetsNotFound,
    RemoteProtocolError,
    RequestTimeout,
    ZenitError,
)
from ...model.queue import MessageQueue
from ...remoting.commands import (
    DropQueryOffsets,
    GetClusterInfo,
    GetQueries,
    GetQueryOffsets,
    HoldMessages,
    KeepQueryOffsets,
    ReleaseHold,
    RenewHold,
    Reply,
    RequestFor,
)
from ..connection.connection import Connection, connect, release
from ..connection.retry import RetryPolicy
from ..connection.waiting import Blocking, run_blocking
from .query_copies import Document, agreed, is_behind, merge_queries

_Reply = TypeVar("_Reply", bound=Reply)

TIMEOUT_MS: Final = 30_000

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class HeldPart:
    """The part of a hold at one group. `queues`: (topic, queue id, first offset)."""

    broker_name: str
    hold_id: str
    queues: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class RetentionHold:
    """A hold of queues of any number of groups; a plain, picklable value."""

    owner: str
    parts: tuple[HeldPart, ...]


class PipelineCalls:
    """The calls to one cluster. Any thread; a call blocks for at most `timeout_ms`, and raises the error of the last try."""

    def __init__(self, connection: Connection, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._connection = connection
        self._waits = Blocking(connection.remoting)
        self._timeout_ms = timeout_ms
        self._retry = RetryPolicy()

    def cluster_id(self) -> str:
        """The id of the cluster, once its name servers know a master; "" if they serve several clusters and none was used
        yet.

        Raises NoRoute, WrongCluster.
        """
        self._repeat(self._masters)
        return self._connection.remoting.cluster_id

    # ---- query offsets

    def keep_query_offsets(self, query: str, offsets: str) -> str:
        """Stores a JSON object (at most 1 MiB) for a query without one, or with a lower version (its member `version`, 0 if
        absent).

        Returns the object that is stored now, unchanged. Raises InvalidName, InvalidParameter, MessageTooLarge,
        TooManyQueries, QueryOffsetsDiffer.
        """
        return self._repeat(lambda deadline_ms: self._keep(query, offsets, deadline_ms))

    def query_offsets(self, query: str) -> str | None:
        """The stored object of a query; None if there is none. Raises InvalidName, QueryOffsetsDiffer."""
        return self._repeat(lambda deadline_ms: agreed(query, self._copies(query, deadline_ms)))

    def copies(self, query: str) -> dict[str, str | None]:
        """The copy of a query's object in each group, by broker name."""
        return self._repeat(lambda deadline_ms: self._copies(query, deadline_ms))

    def queries(self) -> list[Document]:
        """[{query, kept_at_ms, size_bytes, version, brokers}]: the queries with stored objects, and where these are.

        `version` is absent if brokers of an older version do not report it.
        """

        def ask(deadline_ms: int) -> list[Document]:
            listed = {
                name: _document(self._call(address, GetQueries(), deadline_ms)[1])["queries"]
                for name, address in self._masters(deadline_ms).items()
            }
            return merge_queries(listed)

        return self._repeat(ask)

    def drop_query_offsets(self, query: str) -> None:
        """Drops a query's object everywhere. Raises QueryOffsetsNotFound if there was none."""
        dropped: set[str] = set()  # over all tries

        def ask(deadline_ms: int) -> None:
            for name, address in self._masters(deadline_ms).items():
                try:
                    self._call(address, DropQueryOffsets(query), deadline_ms)
                except QueryOffsetsNotFound:
                    continue
                dropped.add(name)

        self._repeat(ask)
        if not dropped:
            raise QueryOffsetsNotFound(query)

    def _keep(self, query: str, offsets: str, deadline_ms: int) -> str:
        masters = self._masters(deadline_ms)
        copies = self._copies(query, deadline_ms, masters)
        is_newest = all(is_behind(text, offsets) for text in copies.values())
        kept = (None if is_newest else agreed(query, copies)) or offsets
        for (
            name,
            address,
        ) in masters.items():  # by name: of two that begin at once, one finds the other's at the first broker
            if is_behind(copies[name], kept):
                copies[name] = self._call(address, KeepQueryOffsets(query), deadline_ms, kept.encode())[1].decode()
                kept = agreed(query, copies) or kept
        return kept

    def _copies(self, query: str, deadline_ms: int, masters: Mapping[str, str] | None = None) -> dict[str, str | None]:
        copies: dict[str, str | None] = {}
        for name, address in (self._masters(deadline_ms) if masters is None else masters).items():
            try:
                copies[name] = self._call(address, GetQueryOffsets(query), deadline_ms)[1].decode()
            except QueryOffsetsNotFound:
                copies[name] = None
        return copies

    # ---- holds

    def hold(self, owner: str, offsets: Mapping[MessageQueue, int], seconds: float) -> RetentionHold:
        """Keeps messages at or behind these offsets for `seconds` (at most an hour) or until a renewal or release.

        `owner`: a name of the reader, for operators. Offsets that are gone already are no error. Raises TopicNotFound,
        InvalidParameter, TooManyHolds.
        """
        queues: dict[str, list[tuple[str, int, int]]] = {}
        for queue, offset in sorted(offsets.items()):
            queues.setdefault(queue.broker_name, []).append((queue.topic, queue.queue_id, offset))
        lease_ms = round(seconds * 1000)
        parts = tuple(
            self._repeat(partial(self._take, owner, part, lease_ms))
            for part in (HeldPart(name, "", tuple(listed)) for name, listed in queues.items())
        )
        return RetentionHold(owner, parts)

    def renew(self, hold: RetentionHold, seconds: float) -> RetentionHold:
        """Extends the hold to `seconds` from now. If a broker forgot it (a change of master), takes a new one.

        Messages that retention deleted meanwhile are lost. Raises as `hold` does.
        """
        lease_ms = round(seconds * 1000)
        parts = tuple(self._repeat(partial(self._renew, hold.owner, part, lease_ms)) for part in hold.parts)
        return replace(hold, parts=parts)

    def release(self, hold: RetentionHold) -> None:
        """Ends a hold. Tries each group once, and raises nothing, because a hold that cannot be released expires by itself."""
        deadline_ms = monotonic_ms() + self._timeout_ms
        for part in hold.parts:
            with suppress(ZenitError):
                address = self._masters(deadline_ms).get(part.broker_name)
                if address is not None:
                    self._call(address, ReleaseHold(part.hold_id), deadline_ms)

    def _take(self, owner: str, part: HeldPart, lease_ms: int, deadline_ms: int) -> HeldPart:
        return self._held(part, HoldMessages(owner, part.queues, lease_ms), deadline_ms)

    def _renew(self, owner: str, part: HeldPart, lease_ms: int, deadline_ms: int) -> HeldPart:
        try:
            return self._held(part, RenewHold(part.hold_id, lease_ms), deadline_ms)
        except HoldNotFound:
            return self._take(owner, part, lease_ms, deadline_ms)

    def _held(self, part: HeldPart, request: HoldMessages | RenewHold, deadline_ms: int) -> HeldPart:
        address = self._masters(deadline_ms).get(part.broker_name)
        if address is None:
            raise NoRoute(part.queues[0][0], f"{part.broker_name} has no master now")
        reply, _ = self._call(address, request, deadline_ms)
        return replace(part, hold_id=reply.hold_id)

    # ---- asking

    def _repeat(self, ask: Callable[[int], _R]) -> _R:
        """Returns the result of `ask(deadline in monotonic ms)`, repeated while that may help."""
        deadline_ms = monotonic_ms() + self._timeout_ms
        tries = 0
        while True:
            try:
                return ask(deadline_ms)
            except ZenitError as error:
                tries += 1
                delay_ms = self._retry.delay_ms(
                    error, tries=tries, left_ms=deadline_ms - monotonic_ms(), elsewhere=False
                )
                if delay_ms is None:
                    raise
                sleep_ms(delay_ms)

    def _masters(self, deadline_ms: int) -> dict[str, str]:
        """{broker name: address} of all masters, by name. Raises NoRoute if there is none."""
        left_ms = max(1, deadline_ms - monotonic_ms())
        _, payload, _ = run_blocking(self._connection.servers.ask(GetClusterInfo(), self._waits, timeout_ms=left_ms))
        brokers = self._connection.routes.document_of_ours(_document(payload))["brokers"]
        masters = {broker["broker_name"]: broker["address"] for broker in brokers if broker["broker_id"] == 0}
        if not masters:
            raise NoRoute("*", "no broker leads at present (see zenit status)")
        return dict(sorted(masters.items()))

    def _call(
        self, address: str, request: RequestFor[_Reply], deadline_ms: int, payload: bytes | None = None
    ) -> tuple[_Reply, bytes]:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise RequestTimeout(f"{type(request).__name__} to {address}", 0)
        timeout_ms = self._retry.try_timeout_ms(self._timeout_ms, left_ms)
        return run_blocking(self._waits.call(address, request, payload, timeout_ms=timeout_ms))


@contextmanager
def pipeline_calls(namesrv: str | None, *, timeout_ms: int = TIMEOUT_MS) -> Iterator[PipelineCalls]:
    """The calls, over a connection of their own."""
    connection = connect(namesrv)
    try:
        yield PipelineCalls(connection, timeout_ms=timeout_ms)
    finally:
        run_blocking(release(connection, Blocking(connection.remoting)))


def _document(payload: bytes) -> Document:
    try:
        document: Any = json.loads(payload)
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise RemoteProtocolError("a document is not JSON") from error
    if not isinstance(document, dict):
        raise RemoteProtocolError("a document is not a JSON object")
    return document
