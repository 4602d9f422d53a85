"""The administrator's calls about the cluster and its brokers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ...model.clock import monotonic_ms, now_ms
from ...model.errors import InvalidParameter, NoRoute, ZenitError
from ...remoting.commands import (
    AddWritePermission,
    DrainBroker,
    ExamineServer,
    GetBrokerConfig,
    GetBrokerStatistics,
    GetServerTime,
    Reply,
    RequestFor,
    ScrubLog,
    WipeWritePermission,
)
from ..connection.documents import document_of
from .admin_calls import AdminCalls
from .admin_merge import Document

SERVER_MS: Final = 1_500
"""For each server: one that is down must not keep the others' answers back."""


class BrokerAdmin(AdminCalls):
    """Calls about brokers."""

    async def _cluster(self, *, timeout: float | None = None) -> Document:
        """{clusters: {name: [broker name]}, brokers: [{cluster, cluster_id, broker_name, broker_id, address,
        replication_address, epoch, last_heartbeat_ms_ago, writeable}]}; `broker_id` 0 is a master."""
        return await self._cluster_document(self._deadline(timeout))

    async def _broker_statistics(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """Counters, positions and memory of a broker: of the master of a broker name, or of whoever has an address, a slave
        too; None = the only master.

        docs/operate.md explains them ("What to watch"). Raises InvalidParameter if no broker has that name or address, or if
        None is ambiguous, and NoRoute if there is no master.
        """
        return await self._broker_document(broker, GetBrokerStatistics(), timeout)

    async def _broker_config(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """{key: value}: the running configuration of a broker; `broker` as above."""
        return await self._broker_document(broker, GetBrokerConfig(), timeout)

    async def _servers(self, *, timeout: float | None = None) -> list[tuple[str, str]]:
        """[(role, "host:port")] of all servers: the name servers that this client has, the brokers that are registered, and the
        controllers that brokers have. Raises what the name servers raise if none answers."""
        deadline_ms = self._deadline(timeout)
        brokers = [one["address"] for one in (await self._cluster_document(deadline_ms))["brokers"]]
        controllers: dict[str, None] = {}
        for address in brokers:
            with suppress(ZenitError):  # it is named in the result; what it is like shows when it is asked
                _, payload = await self._call(address, GetBrokerConfig(), min(deadline_ms, monotonic_ms() + SERVER_MS))
                controllers.update(dict.fromkeys(document_of(payload).get("controllers") or ()))
        return [
            *(("namesrv", address) for address in self._connection.addresses),
            *(("broker", address) for address in brokers),
            *(("controller", address) for address in controllers),
        ]

    async def _examine_server(self, address: str, *, timeout: float | None = None) -> Document:
        """{role, node, version, python, pid, now_ms, findings: [{severity, check, text, remedy}], clock_ahead_ms,
        clock_uncertainty_ms}: what a server finds when it examines its machine and whether it reaches whom it has to reach, and
        how far its clock is ahead of this process's, give or take the uncertainty. `severity`: ok, note, warning, problem."""
        deadline_ms = self._deadline(timeout)
        await self._call(address, GetServerTime(), deadline_ms)  # the connection is made by now
        asked_ms = now_ms()
        told, _ = await self._call(address, GetServerTime(), deadline_ms)
        answered_ms = now_ms()
        _, payload = await self._call(address, ExamineServer(), deadline_ms)
        middle_ms, uncertainty_ms = (asked_ms + answered_ms) / 2, (answered_ms - asked_ms) / 2 + 1
        clock = {"clock_ahead_ms": told.now_ms - middle_ms, "clock_uncertainty_ms": uncertainty_ms}
        return {**document_of(payload), **clock}

    async def _scrub(
        self, broker: str | None = None, *, bytes_per_second: int = 0, timeout: float | None = None
    ) -> dict[str, Document]:
        """Makes brokers read and check their whole logs again; `broker`: all replicas of this name, the one at this
        address, None = all. `bytes_per_second` of each; 0 = as configured.

        Returns at once {address: its statistics}, in which `scrub` has the progress (`scrub_statistics` asks again).
        """
        deadline_ms = self._deadline(timeout)
        found = (await self._cluster_document(deadline_ms))["brokers"]
        chosen = [one["address"] for one in found if broker in (None, one["broker_name"], one["address"])]
        if not found:
            raise NoRoute("*", "no broker is registered with the name server (see zenit status)")
        if not chosen:
            names = sorted({one["address" if ":" in str(broker) else "broker_name"] for one in found})
            remedy = "one that is down must be started first (zenit up)"
            raise InvalidParameter("broker", broker, f"one that is up, {', '.join(names)}; {remedy}")
        for address in chosen:
            await self._call(address, ScrubLog(bytes_per_second), deadline_ms)
        return await self._scrub_statistics(chosen, timeout=self._left_s(deadline_ms))

    async def _scrub_statistics(self, addresses: Iterable[str], *, timeout: float | None = None) -> dict[str, Document]:
        """{address: statistics} of brokers in any role."""
        brokers = {address: address for address in addresses}
        return await self._documents(brokers, GetBrokerStatistics(), self._deadline(timeout))

    async def _drain_broker(
        self, address: str, *, ends: bool = False, undo: bool = False, timeout: float | None = None
    ) -> None:
        """Makes the broker at this address hand over what it does in its replica group; it is not elected again while it runs.

        `ends`: then it leaves the in-sync set, and its process ends. `undo`: it works as before. Returns at once: in the
        broker's statistics `replication.drain` says how far it is ("drained" in the end). Raises InvalidParameter for a broker
        that has nobody to hand over to, unless it ends.
        """
        await self._call(address, DrainBroker(ends, undo), self._deadline(timeout))

    async def _wipe_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Makes producers leave this broker until `add_write_permission`. Returns how many topics that changed."""
        return await self._change_permission(WipeWritePermission(broker_name), timeout)

    async def _add_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Gives the permission back. Returns how many topics that changed."""
        return await self._change_permission(AddWritePermission(broker_name), timeout)

    async def _change_permission(self, request: WipeWritePermission | AddWritePermission, timeout: float | None) -> int:
        """At every name server, because they share nothing."""
        deadline_ms = self._deadline(timeout)
        counts = [(await self._call(address, request, deadline_ms))[0] for address in self._connection.addresses]
        return max(reply.count for reply in counts)

    async def _registered_address(self, address: str, deadline_ms: int) -> str:
        """Itself, of any replica. Raises InvalidParameter."""
        known = sorted(one["address"] for one in (await self._cluster_document(deadline_ms))["brokers"])
        if address not in known:
            raise InvalidParameter("broker", address, f"a broker's name, or one of {', '.join(known)}")
        return address

    async def _broker_document(self, broker: str | None, request: RequestFor[Reply], timeout: float | None) -> Document:
        deadline_ms = self._deadline(timeout)
        if broker is None:
            chosen = await self._masters(deadline_ms)
            if len(chosen) != 1:
                raise InvalidParameter("broker", "", f"one of {', '.join(sorted(chosen))}")
        elif ":" in broker:
            chosen = {broker: await self._registered_address(broker, deadline_ms)}
        else:
            chosen = await self._chosen_masters([broker], deadline_ms)
        return next(iter((await self._documents(chosen, request, deadline_ms)).values()))
