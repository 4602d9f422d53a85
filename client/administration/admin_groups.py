"""The administrator's calls about groups, their members and their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from ...model.clock import ms_of_datetime
from ...model.errors import GroupNotFound, InvalidParameter, TopicNotFound
from ...model.names import check_group, retry_topic
from ...model.queue import MessageQueue
from ...remoting.commands import (
    CloneOffsets,
    CreateGroup,
    DeleteGroup,
    GetConsumeStatistics,
    GetGroupClients,
    GetGroups,
    GetLeases,
    ResetOffsets,
)
from ..connection.argument_checks import settings_of
from .admin_calls import AdminCalls, masters_of
from .admin_merge import Document, merge_clients, merge_group, merge_groups, merge_leases, merge_resets


class GroupAdmin(AdminCalls):
    """Calls about consumer groups."""

    async def _create_group(
        self, group: str, attributes: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> None:
        """Creates a group at every master, or updates its settings, values as JSON text.

        docs/guide/retries.md explains `retryMaxTimes` and `groupRetryPolicy`. Raises InvalidName, InvalidParameter.
        """
        deadline_ms = self._deadline(timeout)
        request = CreateGroup(check_group(group), settings_of(attributes))
        await self._ask_each(await self._masters(deadline_ms), request, deadline_ms)

    async def _groups(self, *, timeout: float | None = None) -> list[Document]:
        """[{name, members, topics, attributes}] of all brokers, by name. `members`: client ids; `topics`: those it consumes."""
        deadline_ms = self._deadline(timeout)
        return merge_groups(
            (await self._documents(await self._masters(deadline_ms), GetGroups(), deadline_ms)).values()
        )

    async def _describe_group(self, group: str, *, timeout: float | None = None) -> Document:
        """{group, members, lag, queues: [{topic, broker_name, queue_id, broker_queue_offset, consumer_queue_offset, lag,
        lag_seconds, owner, incarnation}], conflicts: [{topic, subscriptions: [{kind, expression, members}]}]}; None = unknown.

        Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = GetConsumeStatistics(check_group(group))
        brokers = await self._masters(deadline_ms)
        return merge_group(group, await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group)))

    async def _group_clients(self, group: str, *, timeout: float | None = None) -> Document:
        """{group, clients: [{client_id, model, language, version, host, pid, started_at_ms, allocation, silent_ms,
        subscriptions}]}: the members as they describe themselves; `silent_ms`: since the last heartbeat.

        Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = GetGroupClients(check_group(group))
        brokers = await self._masters(deadline_ms)
        documents = await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group))
        return merge_clients(group, documents.values())

    async def _leases(self, group: str, *, timeout: float | None = None) -> list[Document]:
        """[{topic, broker_name, queue_id, next_offset, first_unacknowledged, leased, available, oldest_lease_ms,
        attempts_max}]: the queues from which a pop group has received messages; [] for other groups.

        `next_offset`: the first one that was not handed out yet; `first_unacknowledged`: all below is handled. `leased`
        messages wait for their acknowledgement; `available` ones are handed out again. `oldest_lease_ms`: its age; None =
        nothing is leased. `attempts_max`: how often one of these messages was handed out, at most.
        """
        deadline_ms = self._deadline(timeout)
        request = GetLeases(check_group(group))
        return merge_leases(await self._documents(await self._masters(deadline_ms), request, deadline_ms))

    async def _lag(self, group: str, *, timeout: float | None = None) -> dict[MessageQueue, int | None]:
        """How many messages a group has not consumed yet, per queue; None = unknown. Raises GroupNotFound."""
        rows = (await self._describe_group(group, timeout=timeout))["queues"]
        return {MessageQueue(row["topic"], row["broker_name"], row["queue_id"]): row["lag"] for row in rows}

    async def _reset_offset(
        self,
        group: str,
        topic: str,
        to: str = "time",
        value: int | datetime = 0,
        *,
        queue: MessageQueue | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> list[Document]:
        """Sets a group's offsets in a topic: [{topic, broker_name, queue_id, from, to}]; with `dry_run` only reports.

        `to`: "earliest", "latest", "offset" or "time" with `value` (an offset; a datetime or ms since the epoch). `queue`:
        only this one. Members continue from there. Raises GroupNotFound, TopicNotFound, InvalidParameter.
        """
        if to not in ("earliest", "latest", "offset", "time"):
            raise InvalidParameter("to", to, "earliest, latest, offset or time")
        deadline_ms = self._deadline(timeout)
        number = ms_of_datetime(value) if isinstance(value, datetime) else value
        queue_id = -1 if queue is None else queue.queue_id
        request = ResetOffsets(check_group(group), topic, to, number, dry_run, queue_id)
        brokers = masters_of(await self._fresh_route(topic, deadline_ms))
        if queue is not None:
            if queue.topic != topic or queue.broker_name not in brokers or queue_id < 0:
                raise InvalidParameter("queue", queue, f"a queue of topic {topic} at {' or '.join(sorted(brokers))}")
            brokers = {queue.broker_name: brokers[queue.broker_name]}
        return merge_resets(await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(group)))

    async def _clone_offsets(
        self,
        source: str,
        group: str,
        *,
        topic: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> list[Document]:
        """Sets the offsets of `group` to those of `source`, in one topic or in all: [{topic, broker_name, queue_id, from,
        to}].

        Raises GroupNotFound if no broker knows the source, TopicNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = CloneOffsets(check_group(source), check_group(group), topic or "", dry_run)
        if topic is None:
            brokers = await self._masters(deadline_ms)
        else:
            brokers = masters_of(await self._fresh_route(topic, deadline_ms))
        return merge_resets(await self._ask_some_documents(brokers, request, deadline_ms, GroupNotFound(source)))

    async def _delete_group(self, group: str, *, timeout: float | None = None) -> None:
        """Deletes a group without members, with its offsets and its failed messages that wait for the next try.

        A group created later with the same name does not get them. The dead letters stay. Raises GroupNotFound.
        """
        deadline_ms = self._deadline(timeout)
        request = DeleteGroup(check_group(group))
        await self._ask_some(await self._masters(deadline_ms), request, deadline_ms, GroupNotFound(group))
        with suppress(TopicNotFound):  # no message failed in it
            await self._drop_topic(retry_topic(group), deadline_ms)
