"""ZenitMQ: a distributed message queue of RocketMQ's class for teams that live in Python.

The public face: names re-exported from where they are defined, each imported when it is first asked for, so that
`import zenitmq` and `zenit --help` load nothing that is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.admin import Admin as Admin
    from .client.administration.message_query import QueryPage as QueryPage
    from .client.consuming.allocation import by_configuration as by_configuration
    from .client.consuming.allocation import consistent_hash as consistent_hash
    from .client.consuming.machine_rooms import by_machine_room as by_machine_room
    from .client.consuming.machine_rooms import nearby_machine_room as nearby_machine_room
    from .client.consuming.prefetch import MessagesLost as MessagesLost
    from .client.consuming.push.handler_pool import ConsumeResult as ConsumeResult
    from .client.consuming.push.process_queue import FlowLimits as FlowLimits
    from .client.consuming.start_from import FIRST as FIRST
    from .client.consuming.start_from import LAST as LAST
    from .client.consuming.start_from import StartFrom as StartFrom
    from .client.lite_consumer import LiteConsumer as LiteConsumer
    from .client.metrics_collector import MetricsCollector as MetricsCollector
    from .client.metrics_collector import metrics_collector as metrics_collector
    from .client.producer import Producer as Producer
    from .client.pull_consumer import PullConsumer as PullConsumer
    from .client.push_consumer import PushConsumer as PushConsumer
    from .client.sending.latency_fault import LatencyTable as LatencyTable
    from .client.sending.send_future import SendFuture as SendFuture
    from .client.simple_consumer import SimpleConsumer as SimpleConsumer
    from .client.simple_consumer import SimpleStatistics as SimpleStatistics
    from .client.transaction_producer import TransactionProducer as TransactionProducer
    from .client.transaction_producer import TransactionReceipt as TransactionReceipt
    from .local.append_interceptor import AppendInterceptor as AppendInterceptor
    from .model import errors as errors
    from .model.errors import BrokerBusy as BrokerBusy
    from .model.errors import BufferFull as BufferFull
    from .model.errors import ClientClosed as ClientClosed
    from .model.errors import ConnectionLost as ConnectionLost
    from .model.errors import CorruptRecordError as CorruptRecordError
    from .model.errors import DuplicateClient as DuplicateClient
    from .model.errors import EngineLacks as EngineLacks
    from .model.errors import GroupConsumedOtherwise as GroupConsumedOtherwise
    from .model.errors import GroupNotFound as GroupNotFound
    from .model.errors import HandleRefused as HandleRefused
    from .model.errors import InvalidName as InvalidName
    from .model.errors import InvalidParameter as InvalidParameter
    from .model.errors import LeaseExpired as LeaseExpired
    from .model.errors import LiteQuotaExceeded as LiteQuotaExceeded
    from .model.errors import LiteTopicMissing as LiteTopicMissing
    from .model.errors import MessageIllegal as MessageIllegal
    from .model.errors import MessageNotFound as MessageNotFound
    from .model.errors import MessageTooLarge as MessageTooLarge
    from .model.errors import NoPermission as NoPermission
    from .model.errors import NoRoute as NoRoute
    from .model.errors import NotARequest as NotARequest
    from .model.errors import NotLiteParent as NotLiteParent
    from .model.errors import NotMaster as NotMaster
    from .model.errors import OutcomeUnknown as OutcomeUnknown
    from .model.errors import RequesterGone as RequesterGone
    from .model.errors import RequestTimeout as RequestTimeout
    from .model.errors import SendFailed as SendFailed
    from .model.errors import SqlSyntaxError as SqlSyntaxError
    from .model.errors import TooManyLightQueues as TooManyLightQueues
    from .model.errors import TooManyRequests as TooManyRequests
    from .model.errors import TopicNotFound as TopicNotFound
    from .model.errors import TransactionDecided as TransactionDecided
    from .model.errors import TransactionNotFound as TransactionNotFound
    from .model.errors import ZenitError as ZenitError
    from .model.handles.transaction import Resolution as Resolution
    from .model.handles.transaction import TransactionState as TransactionState
    from .model.message import BatchReceipt as BatchReceipt
    from .model.message import FailedSend as FailedSend
    from .model.message import Message as Message
    from .model.message import SendReceipt as SendReceipt
    from .model.message import SendStatus as SendStatus
    from .model.queue import MessageQueue as MessageQueue
    from .model.queue import PhysicalOffset as PhysicalOffset
    from .model.queue import QueueOffset as QueueOffset
    from .model.route import TopicRoute as TopicRoute
    from .model.subscription import BROADCASTING as BROADCASTING
    from .model.subscription import CLUSTERING as CLUSTERING
    from .model.subscription import MessageModel as MessageModel
    from .model.subscription import Sql as Sql
    from .record.kernel import MessageBatch as MessageBatch
    from .record.kernel import StoredMessage as StoredMessage

_HOMES = {
    ".client.admin": "Admin",
    ".client.administration.message_query": "QueryPage",
    ".client.consuming.allocation": "by_configuration consistent_hash",
    ".client.consuming.push.handler_pool": "ConsumeResult",
    ".client.sending.latency_fault": "LatencyTable",
    ".client.consuming.prefetch": "MessagesLost",
    ".client.consuming.machine_rooms": "by_machine_room nearby_machine_room",
    ".client.consuming.push.process_queue": "FlowLimits",
    ".client.lite_consumer": "LiteConsumer",
    ".client.metrics_collector": "MetricsCollector metrics_collector",
    ".client.producer": "Producer",
    ".client.pull_consumer": "PullConsumer",
    ".client.push_consumer": "PushConsumer",
    ".client.sending.send_future": "SendFuture",
    ".client.simple_consumer": "SimpleConsumer SimpleStatistics",
    ".client.transaction_producer": "TransactionProducer TransactionReceipt",
    ".client.consuming.start_from": "FIRST LAST StartFrom",
    ".local.append_interceptor": "AppendInterceptor",
    ".model.errors": """BrokerBusy BufferFull ClientClosed ConnectionLost CorruptRecordError DuplicateClient EngineLacks
        GroupConsumedOtherwise GroupNotFound HandleRefused InvalidName InvalidParameter LeaseExpired
        LiteQuotaExceeded LiteTopicMissing NotLiteParent
        MessageIllegal MessageNotFound MessageTooLarge NoPermission NoRoute NotARequest NotMaster
        OutcomeUnknown RequestTimeout RequesterGone SendFailed SqlSyntaxError TooManyLightQueues TooManyRequests
        TopicNotFound TransactionDecided TransactionNotFound ZenitError""",
    ".model.message": "BatchReceipt FailedSend Message SendReceipt SendStatus",
    ".model.queue": "MessageQueue PhysicalOffset QueueOffset",
    ".model.route": "TopicRoute",
    ".model.subscription": "BROADCASTING CLUSTERING MessageModel Sql",
    ".model.handles.transaction": "Resolution TransactionState",
    ".record.kernel": "MessageBatch StoredMessage",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module(".model.errors", __name__)
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "errors"]
