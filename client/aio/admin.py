"""The administrator's client for asyncio: every method of `Admin` as a coroutine, over the same requests.

A cancelled call may or may not have had its effect at some of the brokers.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ..admin import AdminCore
from ..connection.connection import Connection
from ..connection.waiting import Waits
from .event_loop import OnLoop


class Admin(AdminCore):
    """One administrator's connection to a cluster, on one event loop."""

    create_topic = AdminCore._create_topic
    update_topic = AdminCore._update_topic
    compact_topic = AdminCore._compact_topic
    delete_topic = AdminCore._delete_topic
    topics = AdminCore._topics
    topic_configs = AdminCore._topic_configs
    describe_topic = AdminCore._describe_topic
    route = AdminCore._route
    queues = AdminCore._queues
    min_offset = AdminCore._min_offset
    max_offset = AdminCore._max_offset
    search_offset = AdminCore._search_offset
    create_group = AdminCore._create_group
    groups = AdminCore._groups
    describe_group = AdminCore._describe_group
    group_clients = AdminCore._group_clients
    leases = AdminCore._leases
    lag = AdminCore._lag
    light_queues = AdminCore._light_queues
    lite_topics = AdminCore._lite_topics
    lite_group = AdminCore._lite_group
    reset_offset = AdminCore._reset_offset
    clone_offsets = AdminCore._clone_offsets
    delete_group = AdminCore._delete_group
    dead_letter_groups = AdminCore._dead_letter_groups
    dead_letters = AdminCore._dead_letters
    redrive_dead_letters = AdminCore._redrive_dead_letters
    query = AdminCore._query
    query_by_key = AdminCore._query_by_key
    view_message = AdminCore._view_message
    query_by_id = AdminCore._query_by_id
    trace = AdminCore._trace
    transactions = AdminCore._transactions
    transaction = AdminCore._transaction
    commit_transaction = AdminCore._commit_transaction
    rollback_transaction = AdminCore._rollback_transaction
    security_rows = AdminCore._security_rows
    security_row = AdminCore._security_row
    put_security_row = AdminCore._put_security_row
    make_secret = AdminCore._make_secret
    delete_security_row = AdminCore._delete_security_row
    explain_right = AdminCore._explain_right
    cluster = AdminCore._cluster
    servers = AdminCore._servers
    examine_server = AdminCore._examine_server
    events = AdminCore._events
    broker_statistics = AdminCore._broker_statistics
    scrub = AdminCore._scrub
    scrub_statistics = AdminCore._scrub_statistics
    drain_broker = AdminCore._drain_broker
    broker_config = AdminCore._broker_config
    wipe_write_permission = AdminCore._wipe_write_permission
    add_write_permission = AdminCore._add_write_permission
    close = AdminCore._close

    def _new_waits(self, connection: Connection) -> Waits:
        return OnLoop(connection.remoting, "admin")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
