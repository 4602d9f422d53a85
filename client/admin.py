"""The administration client: topics, groups, brokers and single messages. Each subject has its own file, admin_SUBJECT.

Every method asks all brokers concerned and combines their answers. Each takes `timeout`, the seconds for the whole call. An
error that a broker answers is raised.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from .administration.admin_brokers import BrokerAdmin
from .administration.admin_dead_letters import DeadLetterAdmin
from .administration.admin_events import EventAdmin
from .administration.admin_groups import GroupAdmin
from .administration.admin_lite import LiteAdmin
from .administration.admin_messages import MessageAdmin
from .administration.admin_security import SecurityAdmin
from .administration.admin_topics import TopicAdmin
from .administration.admin_transactions import TransactionAdmin
from .connection.connection import Connection
from .connection.waiting import Blocking, Waits, blocking


class AdminCore(
    TopicAdmin,
    GroupAdmin,
    LiteAdmin,
    DeadLetterAdmin,
    MessageAdmin,
    TransactionAdmin,
    SecurityAdmin,
    BrokerAdmin,
    EventAdmin,
):
    """The administration client without its way of waiting.

    `Admin` below waits in the calling thread, the one in `zenitmq.aio` on an event loop. Methods that wait are coroutines
    whose names begin with an underscore; both classes give them their public names.
    """


class Admin(AdminCore):
    """One administration connection to a cluster. Every method may be called from any thread and blocks the caller."""

    create_topic = blocking(AdminCore._create_topic)
    update_topic = blocking(AdminCore._update_topic)
    compact_topic = blocking(AdminCore._compact_topic)
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
    leases = blocking(AdminCore._leases)
    lag = blocking(AdminCore._lag)
    light_queues = blocking(AdminCore._light_queues)
    lite_topics = blocking(AdminCore._lite_topics)
    lite_group = blocking(AdminCore._lite_group)
    reset_offset = blocking(AdminCore._reset_offset)
    clone_offsets = blocking(AdminCore._clone_offsets)
    delete_group = blocking(AdminCore._delete_group)
    dead_letter_groups = blocking(AdminCore._dead_letter_groups)
    dead_letters = blocking(AdminCore._dead_letters)
    redrive_dead_letters = blocking(AdminCore._redrive_dead_letters)
    query = blocking(AdminCore._query)
    query_by_key = blocking(AdminCore._query_by_key)
    view_message = blocking(AdminCore._view_message)
    query_by_id = blocking(AdminCore._query_by_id)
    trace = blocking(AdminCore._trace)
    transactions = blocking(AdminCore._transactions)
    transaction = blocking(AdminCore._transaction)
    commit_transaction = blocking(AdminCore._commit_transaction)
    rollback_transaction = blocking(AdminCore._rollback_transaction)
    security_rows = blocking(AdminCore._security_rows)
    security_row = blocking(AdminCore._security_row)
    put_security_row = blocking(AdminCore._put_security_row)
    make_secret = blocking(AdminCore._make_secret)
    delete_security_row = blocking(AdminCore._delete_security_row)
    explain_right = blocking(AdminCore._explain_right)
    cluster = blocking(AdminCore._cluster)
    servers = blocking(AdminCore._servers)
    examine_server = blocking(AdminCore._examine_server)
    events = blocking(AdminCore._events)
    broker_statistics = blocking(AdminCore._broker_statistics)
    scrub = blocking(AdminCore._scrub)
    scrub_statistics = blocking(AdminCore._scrub_statistics)
    drain_broker = blocking(AdminCore._drain_broker)
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
