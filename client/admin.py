"""The administrator's side: topics, groups, brokers, single messages; each subject in a file of its own, admin_SUBJECT.

Every method asks all brokers that have a part in it and puts the answers together. Each takes `timeout`, seconds for
everything it does; what a broker answered with an error is raised.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from .administration.admin_brokers import BrokerAdmin
from .administration.admin_dead_letters import DeadLetterAdmin
from .administration.admin_groups import GroupAdmin
from .administration.admin_messages import MessageAdmin
from .administration.admin_topics import TopicAdmin
from .administration.admin_transactions import TransactionAdmin
from .connection.connection import Connection
from .connection.waiting import Blocking, Waits, blocking


class AdminCore(TopicAdmin, GroupAdmin, DeadLetterAdmin, MessageAdmin, TransactionAdmin, BrokerAdmin):
    """All of an administrator's connection but how it waits: `Admin` here does so in the calling thread, the one of
    `zenitmq.aio` on an event loop. What waits is a coroutine with an underscore, given its name by both.
    """


class Admin(AdminCore):
    """One administrator's connection to a cluster. Any thread may call; every call blocks the one that does."""

    create_topic = blocking(AdminCore._create_topic)
    update_topic = blocking(AdminCore._update_topic)
    delete_topic = blocking(AdminCore._delete_topic)
    topics = blocking(AdminCore._topics)
    topic_configs = blocking(AdminCore._topic_configs)
    describe_topic = blocking(AdminCore._describe_topic)
    route = blocking(AdminCore._route)
    queues = blocking(AdminCore._queues)
    min_offset = blocking(AdminCore._min_offset)
    max_offset = blocking(AdminCore._max_offset)
    search_offset = blocking(AdminCore._search_offset)
    create_group = blocking(AdminCore._create_group)
    groups = blocking(AdminCore._groups)
    describe_group = blocking(AdminCore._describe_group)
    group_clients = blocking(AdminCore._group_clients)
    lag = blocking(AdminCore._lag)
    reset_offset = blocking(AdminCore._reset_offset)
    clone_offsets = blocking(AdminCore._clone_offsets)
    delete_group = blocking(AdminCore._delete_group)
    dead_letter_groups = blocking(AdminCore._dead_letter_groups)
    dead_letters = blocking(AdminCore._dead_letters)
    redrive_dead_letters = blocking(AdminCore._redrive_dead_letters)
    query_by_key = blocking(AdminCore._query_by_key)
    view_message = blocking(AdminCore._view_message)
    query_by_id = blocking(AdminCore._query_by_id)
    trace = blocking(AdminCore._trace)
    transactions = blocking(AdminCore._transactions)
    transaction = blocking(AdminCore._transaction)
    commit_transaction = blocking(AdminCore._commit_transaction)
    rollback_transaction = blocking(AdminCore._rollback_transaction)
    cluster = blocking(AdminCore._cluster)
    broker_statistics = blocking(AdminCore._broker_statistics)
    scrub = blocking(AdminCore._scrub)
    scrub_statistics = blocking(AdminCore._scrub_statistics)
    broker_config = blocking(AdminCore._broker_config)
    wipe_write_permission = blocking(AdminCore._wipe_write_permission)
    add_write_permission = blocking(AdminCore._add_write_permission)
    close = blocking(AdminCore._close)

    def _new_waits(self, connection: Connection) -> Waits:
        return Blocking(connection.remoting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
