"""The administrator's side: the cluster and its brokers."""

from __future__ import annotations

from ..model.errors import InvalidParameter
from ..remoting.commands import (
    AddWritePermission,
    CountReply,
    GetBrokerConfig,
    GetBrokerStatistics,
    Request,
    WipeWritePermission,
)
from .admin_calls import AdminCalls
from .admin_merge import Document


class BrokerAdmin(AdminCalls):
    """What concerns brokers."""

    async def _cluster(self, *, timeout: float | None = None) -> Document:
        """{clusters: {name: [broker name]}, brokers: [{cluster, broker_name, broker_id, address, epoch, ...}]}."""
        return await self._cluster_document(self._deadline(timeout))

    async def _broker_statistics(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """Counters, positions and memory of a broker, by its name or address; None = the only one."""
        return await self._broker_document(broker, GetBrokerStatistics(), timeout)

    async def _broker_config(self, broker: str | None = None, *, timeout: float | None = None) -> Document:
        """{key: value} as a broker runs with; `broker` as above."""
        return await self._broker_document(broker, GetBrokerConfig(), timeout)

    async def _wipe_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Producers leave this broker, until `add_write_permission`. Returns how many topics that changed."""
        return await self._change_permission(WipeWritePermission(broker_name), timeout)

    async def _add_write_permission(self, broker_name: str, *, timeout: float | None = None) -> int:
        """Gives it back. Returns how many topics that changed."""
        return await self._change_permission(AddWritePermission(broker_name), timeout)

    async def _change_permission(self, request: WipeWritePermission | AddWritePermission, timeout: float | None) -> int:
        """At every name server, since they share nothing."""
        deadline_ms = self._deadline(timeout)
        counts = [(await self._call(address, request, deadline_ms))[0] for address in self._connection.addresses]
        return max(reply.count for reply in counts if isinstance(reply, CountReply))

    async def _broker_document(self, broker: str | None, request: Request, timeout: float | None) -> Document:
        deadline_ms = self._deadline(timeout)
        if broker is None:
            chosen = await self._masters(deadline_ms)
            if len(chosen) != 1:
                raise InvalidParameter("broker", "", f"one of {', '.join(sorted(chosen))}")
        else:
            chosen = await self._chosen_masters([broker], deadline_ms)
        return next(iter((await self._documents(chosen, request, deadline_ms)).values()))
