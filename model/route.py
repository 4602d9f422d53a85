"""A topic's route: its brokers, its queues, its permissions. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Final

from .plain_dataclass import dataclass
from .queue import MessageQueue

PERMISSION_INHERIT: Final = 1
PERMISSION_WRITE: Final = 2
PERMISSION_READ: Final = 4
PERMISSION_READ_WRITE: Final = 6
BATCHED: Final = 16
"""In what name servers tell of a topic's queues, beside the permission: they are batch queues. RocketMQ has no such bit."""

MASTER_ID: Final = 0
TYPE_ATTRIBUTE: Final = "message.type"
TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "UNSPECIFIED", "PRIORITY", "LITE")
"""RocketMQ's values of that attribute; of these PRIORITY alone changes what the broker does."""
QUEUE_TYPE_ATTRIBUTE: Final = "queue.type"
QUEUE_TYPES: Final = ("SimpleCQ", "BatchCQ")
BATCHED_TYPES: Final = ("NORMAL", "FIFO", "MIXED", "UNSPECIFIED")
"""The types that a batch topic may have."""
CLEANUP_ATTRIBUTE: Final = "cleanup.policy"
CLEANUPS: Final = ("DELETE", "COMPACTION")
COMPACTED_TYPES: Final = ("NORMAL", "FIFO", "MIXED", "UNSPECIFIED")
"""The types that a compacted topic may have."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic at one broker, as in topics.json (RocketMQ's topicConfigTable).

    `incarnation`: a number that distinguishes it from any other topic of its name, an earlier one or one in another store;
    0 = not known (a topic of RocketMQ's, or of an older store). `made_at`: the end, in the broker's log, of the record that
    created it; 0 = not known.
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    permission: int = PERMISSION_READ_WRITE
    order: bool = False
    sys_flag: int = 0
    filter_type: str = "SINGLE_TAG"
    attributes: dict[str, str] = field(default_factory=dict)
    incarnation: int = 0
    made_at: int = 0

    @property
    def is_by_priority(self) -> bool:
        """Its queues are priorities: pop groups get messages of the highest queue first."""
        return self.attributes.get(TYPE_ATTRIBUTE) == "PRIORITY"

    @property
    def is_compacted(self) -> bool:
        """The newest message of each key stays for ever."""
        return self.attributes.get(CLEANUP_ATTRIBUTE) == "COMPACTION"

    @property
    def is_batched(self) -> bool:
        """A producer's batch is one record (batch queues)."""
        return self.attributes.get(QUEUE_TYPE_ATTRIBUTE) == "BatchCQ"


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of a topic one replica group serves. `incarnation`: see TopicConfig."""

    broker_name: str
    read_queues: int
    write_queues: int
    permission: int
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The living members of one replica group: {broker id: "host:port"}, 0 = master. `cluster_id`: of their cluster."""

    cluster: str
    broker_name: str
    addresses: dict[int, str]
    cluster_id: str = ""

    @property
    def master_address(self) -> str | None:
        """The address for writes; None while the group has no master."""
        return self.addresses.get(MASTER_ID)


@dataclasses.dataclass(frozen=True, slots=True)
class TopicRoute:
    """Everything a client needs to send to or read from a topic."""

    topic: str
    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]

    @property
    def is_batched(self) -> bool:
        """Its queues take batches, each as one record."""
        return bool(self.queues) and bool(self.queues[0].permission & BATCHED)

    def write_queues(self) -> list[MessageQueue]:
        """Queues that take messages now: write permission and a live master; sorted."""
        masters = {broker.broker_name for broker in self.brokers if broker.master_address is not None}
        return sorted(
            MessageQueue(self.topic, data.broker_name, queue_id, data.incarnation)
            for data in self.queues
            if data.permission & PERMISSION_WRITE and data.broker_name in masters
            for queue_id in range(data.write_queues)
        )

    def read_queues(self) -> list[MessageQueue]:
        """Readable queues; sorted."""
        return sorted(
            MessageQueue(self.topic, data.broker_name, queue_id, data.incarnation)
            for data in self.queues
            if data.permission & PERMISSION_READ
            for queue_id in range(data.read_queues)
        )

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """The address of this member of a group, or of its master if the member is absent; None if both are."""
        for broker in self.brokers:
            if broker.broker_name == broker_name:
                return broker.addresses.get(broker_id) or broker.master_address
        return None
