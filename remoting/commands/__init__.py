"""Every request and its reply, as typed values, in one table {code: request class, reply class, lane}.

Codes are RocketMQ's own (`RequestCode`). The fields travel by position in the header's ext list (see `header.py`), in
the order written here: a field is only ever appended, with a default, so that an older peer's shorter list still
decodes. Field types are int, str, bool, bytes and (nested) tuples of them; nothing else goes on the wire.
Bulk bytes (records) travel in payload frames beside the header, never in a field.

One module for each subject; all names are here.
"""

from .administration import CreateTopic as CreateTopic
from .administration import DeleteTopic as DeleteTopic
from .administration import GetBrokerConfig as GetBrokerConfig
from .administration import GetBrokerStatistics as GetBrokerStatistics
from .administration import GetTopics as GetTopics
from .administration import GetTopicStatistics as GetTopicStatistics
from .base import REQUESTS as REQUESTS
from .base import Done as Done
from .base import JsonReply as JsonReply
from .base import Lane as Lane
from .base import Reply as Reply
from .base import Request as Request
from .base import request as request
from .consuming import LockQueues as LockQueues
from .consuming import LockReply as LockReply
from .consuming import SendBack as SendBack
from .consuming import StartConsuming as StartConsuming
from .consuming import StartReply as StartReply
from .consuming import UnlockQueues as UnlockQueues
from .controller import AlterInSync as AlterInSync
from .controller import ChangeGroup as ChangeGroup
from .controller import ControllerReply as ControllerReply
from .controller import ElectMaster as ElectMaster
from .controller import FlushLog as FlushLog
from .controller import GetController as GetController
from .controller import GetGroup as GetGroup
from .controller import GroupChanged as GroupChanged
from .controller import GroupReply as GroupReply
from .controller import ProbeReplica as ProbeReplica
from .controller import RegisterReplica as RegisterReplica
from .controller import RemoveReplica as RemoveReplica
from .controller import ReplicaHeartbeat as ReplicaHeartbeat
from .controller import ReportMasterGone as ReportMasterGone
from .controller import RestoreGroup as RestoreGroup
from .groups import ConsumerListReply as ConsumerListReply
from .groups import ConsumersChanged as ConsumersChanged
from .groups import CreateGroup as CreateGroup
from .groups import DeleteGroup as DeleteGroup
from .groups import GetConsumerList as GetConsumerList
from .groups import GetConsumeStatistics as GetConsumeStatistics
from .groups import GetGroupClients as GetGroupClients
from .groups import GetGroups as GetGroups
from .groups import Heartbeat as Heartbeat
from .groups import HeartbeatReply as HeartbeatReply
from .groups import UnregisterClient as UnregisterClient
from .lookup import MessagesReply as MessagesReply
from .lookup import QueryMessages as QueryMessages
from .lookup import ViewMessage as ViewMessage
from .name_server import AddWritePermission as AddWritePermission
from .name_server import BrokerHeartbeat as BrokerHeartbeat
from .name_server import BrokerHeartbeatReply as BrokerHeartbeatReply
from .name_server import CountReply as CountReply
from .name_server import DeleteTopicRoute as DeleteTopicRoute
from .name_server import GetClusterInfo as GetClusterInfo
from .name_server import GetRoute as GetRoute
from .name_server import GetTopicList as GetTopicList
from .name_server import RegisterBroker as RegisterBroker
from .name_server import RegisterReply as RegisterReply
from .name_server import RouteReply as RouteReply
from .name_server import TopicListReply as TopicListReply
from .name_server import UnregisterBroker as UnregisterBroker
from .name_server import WipeWritePermission as WipeWritePermission
from .offsets import BeginOffsetsReply as BeginOffsetsReply
from .offsets import CloneOffsets as CloneOffsets
from .offsets import ConsumerOffsetReply as ConsumerOffsetReply
from .offsets import GetBeginOffsets as GetBeginOffsets
from .offsets import GetMaxOffset as GetMaxOffset
from .offsets import GetMinOffset as GetMinOffset
from .offsets import OffsetReply as OffsetReply
from .offsets import OffsetsReset as OffsetsReset
from .offsets import QueryConsumerOffset as QueryConsumerOffset
from .offsets import ResetOffsets as ResetOffsets
from .offsets import SearchOffset as SearchOffset
from .offsets import UpdateConsumerOffsets as UpdateConsumerOffsets
from .pipeline import DropQueryOffsets as DropQueryOffsets
from .pipeline import GetQueries as GetQueries
from .pipeline import GetQueryOffsets as GetQueryOffsets
from .pipeline import HoldMessages as HoldMessages
from .pipeline import HoldReply as HoldReply
from .pipeline import KeepQueryOffsets as KeepQueryOffsets
from .pipeline import ReleaseHold as ReleaseHold
from .pipeline import RenewHold as RenewHold
from .pulling import PullMessages as PullMessages
from .pulling import PullReply as PullReply
from .replicas import GetBeginning as GetBeginning
from .replicas import ReplicaQuestion as ReplicaQuestion
from .replies import PushReply as PushReply
from .replies import ReplyStored as ReplyStored
from .replies import SendReplyMessage as SendReplyMessage
from .sending import DelayedReply as DelayedReply
from .sending import RecallMessage as RecallMessage
from .sending import RecallReply as RecallReply
from .sending import SendDelayed as SendDelayed
from .sending import SendDelayedSequenced as SendDelayedSequenced
from .sending import SendMessages as SendMessages
from .sending import SendReply as SendReply
from .sending import SendSequenced as SendSequenced
from .sending import SequencedReply as SequencedReply
