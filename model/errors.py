"""Every error we raise, in one small tree that tells the caller what to do.

`code` goes on the wire (RocketMQ's number where it has one, ours begin at 9000); one code is one class, both ways.
Arguments are facts, not a sentence: they are attributes, they travel in the reply, and they survive pickling;
`__str__` renders them. The flags say what may help:

- `retriable`: the same request may succeed later, or at another broker;
- `route_stale`: ask the name server again first.
"""

from __future__ import annotations

import contextlib
from typing import ClassVar


class ZenitError(Exception):
    """Root of all we raise. Args: the facts of the class, in the order of its `__init__`."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    route_stale: ClassVar[bool] = False


class SystemFault(ZenitError):
    """Something broke inside the process that answered; its log has the traceback. Args: what."""

    code = 9000

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"internal error: {self.what}"


class BrokerBusy(ZenitError):
    """A limit was reached before memory grew past its bound. Args: retry_after_ms, reason."""

    code, retriable = 2, True

    def __init__(self, retry_after_ms: int, reason: str = "overloaded") -> None:
        super().__init__(retry_after_ms, reason)
        self.retry_after_ms = retry_after_ms
        self.reason = reason

    def __str__(self) -> str:
        return f"broker busy ({self.reason}); retry after {self.retry_after_ms} ms"


class UnknownRequest(ZenitError):
    """The peer does not serve this request code. Args: request_code."""

    code = 3

    def __init__(self, request_code: int) -> None:
        super().__init__(request_code)
        self.request_code = request_code

    def __str__(self) -> str:
        return f"request code {self.request_code} is not supported here"


class FlushTimeout(ZenitError):
    """The message was written but its flush did not end in time: durable or not is unknown. Args: timeout_ms."""

    code, retriable = 10, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"not flushed within {self.timeout_ms} ms; whether the message survives a power cut is unknown"


class ReplicaTimeout(ZenitError):
    """Stored, but the replicas in sync did not have it in time: it may or may not survive. Args: timeout_ms."""

    code, retriable = 12, True

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return (
            f"the replicas in sync did not acknowledge within {self.timeout_ms} ms; the messages may be stored or not"
        )


class MessageIllegal(ZenitError):
    """A message breaks a rule; nothing of its batch was written. Args: reason (with limit and value)."""

    code = 13

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"message refused: {self.reason}"


class StoreNotWriteable(ZenitError):
    """The store takes no writes at present (disk full, shutting down); reads go on. Args: reason."""

    code, retriable = 14, True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the store takes no writes: {self.reason}"


class VersionNotSupported(ZenitError):
    """The peer speaks a protocol version this one does not. Args: version, supported."""

    code = 15

    def __init__(self, version: int, supported: int) -> None:
        super().__init__(version, supported)
        self.version = version
        self.supported = supported

    def __str__(self) -> str:
        return f"protocol version {self.version} is not supported (this side speaks {self.supported}); upgrade the older side"


class NoPermission(ZenitError):
    """The topic or broker does not permit this. Args: resource, action."""

    code, route_stale = 16, True

    def __init__(self, resource: str, action: str) -> None:
        super().__init__(resource, action)
        self.resource = resource
        self.action = action

    def __str__(self) -> str:
        return f"{self.action} is not permitted on {self.resource}"


class TopicNotFound(ZenitError):
    """No such topic where it was asked for. Args: topic."""

    code, route_stale = 17, True

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic!r} does not exist; create it: zenit topic create {self.topic} --queues 8"


class TopicExists(ZenitError):
    """The topic exists with other settings. Args: topic."""

    code = 18

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic!r} exists already"


class MessageNotFound(ZenitError):
    """Nothing is stored under this id, key or offset. Args: what."""

    code = 22

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no message for {self.what}"


class SqlSyntaxError(ZenitError):
    """A text is no SQL92 condition. Args: position (of a character, from 1), found, expected."""

    code = 23

    def __init__(self, position: int, found: str, expected: str) -> None:
        super().__init__(position, found, expected)
        self.position = position
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"condition, character {self.position}: found {self.found}, expected {self.expected}"


class SubscriptionConflict(ZenitError):
    """Members of one group want different things of a topic, so each reads its queues its own way. Args: group, topic,
    client_id (one that wants something else)."""

    code = 25

    def __init__(self, group: str, topic: str, client_id: str) -> None:
        super().__init__(group, topic, client_id)
        self.group = group
        self.topic = topic
        self.client_id = client_id

    def __str__(self) -> str:
        return (
            f"group {self.group!r}: member {self.client_id} subscribes to topic {self.topic} differently; which messages the"
            " group gets depends on who has their queue"
        )


class GroupNotFound(ZenitError):
    """No such consumer group. Args: group."""

    code = 26

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"group {self.group!r} does not exist"


class InvalidParameter(ZenitError):
    """A value is outside its range. Args: name, value (as text), expected."""

    code = 29

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(name, str(value), expected)
        self.name = name
        self.value = str(value)
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.name} = {self.value!r}: expected {self.expected}"


class NotEnoughReplicas(ZenitError):
    """Too few replicas of the group are in sync to take writes; reads go on. Args: in_sync, min_in_sync."""

    code, retriable = 9047, True

    def __init__(self, in_sync: int, min_in_sync: int) -> None:
        super().__init__(in_sync, min_in_sync)
        self.in_sync = in_sync
        self.min_in_sync = min_in_sync

    def __str__(self) -> str:
        return f"{self.in_sync} replicas are in sync, {self.min_in_sync} are wanted: writes wait until more are"


class NotMaster(ZenitError):
    """The broker that answered is not master of its group. Args: broker, epoch."""

    code, retriable, route_stale = 501, True, True

    def __init__(self, broker: str, epoch: int) -> None:
        super().__init__(broker, epoch)
        self.broker = broker
        self.epoch = epoch

    def __str__(self) -> str:
        return f"{self.broker} is not master (epoch {self.epoch})"


class MessageTooLarge(ZenitError):
    """A message or request is over a size limit; nothing was written. Args: what, size_bytes, limit_bytes."""

    code = 9001

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(what, size_bytes, limit_bytes)
        self.what = what
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"{self.what} of {self.size_bytes} bytes is over the limit of {self.limit_bytes} bytes"


class RequestTimeout(ZenitError):
    """No reply within the deadline: the request may or may not have been carried out. Args: what, timeout_ms."""

    code, retriable, route_stale = 9002, True, True

    def __init__(self, what: str, timeout_ms: int) -> None:
        super().__init__(what, timeout_ms)
        self.what = what
        self.timeout_ms = timeout_ms

    def __str__(self) -> str:
        return f"no reply within {self.timeout_ms} ms: {self.what}"


class ConnectionLost(ZenitError):
    """The peer cannot be reached, or went away with requests in flight. Args: address."""

    code, retriable, route_stale = 9003, True, True

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"cannot reach {self.address}; is it running? (zenit status)"


class RemoteProtocolError(ZenitError):
    """The other side broke the protocol. Args: what."""

    code = 9004

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"malformed request or reply: {self.what}"


class LocalProtocolError(ZenitError):
    """We were asked to send something the protocol does not allow. Args: what."""

    code = 9005

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class NoRoute(ZenitError):
    """A topic is known but no broker serves it now. Args: topic, reason."""

    code, retriable, route_stale = 9006, True, True

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    def __str__(self) -> str:
        return f"no route to topic {self.topic!r}: {self.reason}"


class ClientClosed(ZenitError):
    """The client object was closed, or not started. Args: what."""

    code = 9007

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed"


class BufferFull(ZenitError):
    """The client's own bounded buffer is full: the brokers answer slower than the caller sends. Args: limit_bytes."""

    code, retriable = 9008, True

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"{self.limit_bytes} bytes wait for acknowledgement already; slow down or call flush()"


class InvalidName(ZenitError):
    """A topic or group name breaks the rule. Args: kind, name, rule."""

    code = 9009

    def __init__(self, kind: str, name: str, rule: str) -> None:
        super().__init__(kind, name, rule)
        self.kind = kind
        self.name = name
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.kind} name {self.name[:140]!r}: {self.rule}"


class CorruptRecordError(ZenitError):
    """Bytes on disk are not the record they should be. Args: offset, size_bytes, reason."""

    code = 9010

    def __init__(self, offset: int, size_bytes: int, reason: str = "checksum") -> None:
        super().__init__(offset, size_bytes, reason)
        self.offset = offset
        self.size_bytes = size_bytes
        self.reason = reason

    def __str__(self) -> str:
        return f"damaged record at offset {self.offset} ({self.size_bytes} bytes): {self.reason}"


class StoreLocked(ZenitError):
    """Another process has this store open. Args: store_dir."""

    code = 9011

    def __init__(self, store_dir: str) -> None:
        super().__init__(store_dir)
        self.store_dir = store_dir

    def __str__(self) -> str:
        return f"store {self.store_dir} is open in another process; stop it first, or use another directory"


class StoreFormatError(ZenitError):
    """A file of the store is not what this version can open. Args: path, reason."""

    code = 9012

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot open {self.path}: {self.reason}"


class StorePoisoned(ZenitError):
    """A write or flush failed; nothing is acknowledged any more and the process must exit. Args: what."""

    code = 9014

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"the disk failed: {self.what}; this process stops, the next start re-reads the disk"


class SendFailed(ZenitError):
    """Messages sent in the background were not acknowledged. Args: count, reason (of the first); `failed`: `Producer.flush`."""

    code = 9015

    def __init__(self, count: int, reason: str) -> None:
        super().__init__(count, reason)
        self.count = count
        self.reason = reason
        self.failed: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.count} messages were not acknowledged; the first: {self.reason}"


class ConfigError(ZenitError):
    """A configuration key or value is refused at start. Args: key, value, expected."""

    code = 9020

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(key, str(value), expected)
        self.key = key
        self.value = str(value)
        self.expected = expected

    def __str__(self) -> str:
        return f"configuration {self.key} = {self.value!r}: expected {self.expected}"


class OffsetOutOfRange(ZenitError):
    """An offset that was asked for is outside what the queue holds. Args: queue (as text), offset, minimum, maximum."""

    code = 9021

    def __init__(self, queue: str, offset: int, minimum: int, maximum: int) -> None:
        super().__init__(queue, offset, minimum, maximum)
        self.queue = queue
        self.offset = offset
        self.minimum = minimum
        self.maximum = maximum

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.queue} is outside [{self.minimum}, {self.maximum}]"


class ClusterNotStarted(ZenitError):
    """A process of a local cluster ended or did not answer in time. Args: name, reason, log_path."""

    code = 9030

    def __init__(self, name: str, reason: str, log_path: str) -> None:
        super().__init__(name, reason, log_path)
        self.name = name
        self.reason = reason
        self.log_path = log_path

    def __str__(self) -> str:
        return f"{self.name} {self.reason} (log: {self.log_path})"


class NoCluster(ZenitError):
    """A directory holds no cluster. Args: directory."""

    code = 9031

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"no cluster in {self.directory}; start one: zenit up --dir {self.directory} --detach"


class StaleEpoch(ZenitError):
    """A replica group has gone on to a later epoch than the request's. Args: group, epoch, current."""

    code = 2000

    def __init__(self, group: str, epoch: int, current: int) -> None:
        super().__init__(group, epoch, current)
        self.group = group
        self.epoch = epoch
        self.current = current

    def __str__(self) -> str:
        return f"replica group {self.group!r} is in epoch {self.current}, the request is of epoch {self.epoch}"


class StaleGroupVersion(ZenitError):
    """A change was built on another version of the group's node than the present one. Args: group, version, current."""

    code = 2001

    def __init__(self, group: str, version: int, current: int) -> None:
        super().__init__(group, version, current)
        self.group = group
        self.version = version
        self.current = current

    def __str__(self) -> str:
        return f"the node of replica group {self.group!r} is at version {self.current}, the change names {self.version}"


class NotGroupMaster(ZenitError):
    """Only the elected life of a group's master may ask this. Args: group, replica, master ("" where there is none)."""

    code = 2002

    def __init__(self, group: str, replica: str, master: str) -> None:
        super().__init__(group, replica, master)
        self.group = group
        self.replica = replica
        self.master = master

    def __str__(self) -> str:
        return (
            f"{self.replica!r} is not the elected master of replica group {self.group!r} ({self.master or 'nobody'} is)"
        )


class UnknownReplica(ZenitError):
    """A name that is no replica of the group. Args: group, replica."""

    code = 2003

    def __init__(self, group: str, replica: str) -> None:
        super().__init__(group, replica)
        self.group = group
        self.replica = replica

    def __str__(self) -> str:
        return f"{self.replica!r} is not a replica of group {self.group!r}; it must register first"


class ReplicaNotAlive(ZenitError):
    """A replica was not heard of lately, so it cannot be chosen. Args: group, replica."""

    code, retriable = 2006, True

    def __init__(self, group: str, replica: str) -> None:
        super().__init__(group, replica)
        self.group = group
        self.replica = replica

    def __str__(self) -> str:
        return f"replica {self.replica!r} of group {self.group!r} sends no heartbeats; start it, or choose another"


class NotLeadingController(ZenitError):
    """Another controller leads. Args: leader (its address; "" where none is known)."""

    code, retriable = 2007, True

    def __init__(self, leader: str) -> None:
        super().__init__(leader)
        self.leader = leader

    def __str__(self) -> str:
        return f"this controller does not lead; {self.leader or 'no other is known to, try again'}"


class ReplicaGroupNotFound(ZenitError):
    """No such replica group. Args: group."""

    code = 2008

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"replica group {self.group!r} does not exist; it begins when its first broker registers"


class IncarnationUnknown(ZenitError):
    """The node has another life of that replica than the one that asks: register. Args: group, replica, starts, current."""

    code = 2010

    def __init__(self, group: str, replica: str, starts: int, current: int) -> None:
        super().__init__(group, replica, starts, current)
        self.group = group
        self.replica = replica
        self.starts = starts
        self.current = current

    def __str__(self) -> str:
        return (
            f"start {self.starts} of replica {self.replica!r} is not the one that group {self.group!r} knows"
            f" (start {self.current}); it must register first"
        )


class MasterStillAlive(ZenitError):
    """A forced election waits until the old master was silent for one dead time. Args: group, master, wait_ms."""

    code, retriable = 2011, True

    def __init__(self, group: str, master: str, wait_ms: int) -> None:
        super().__init__(group, master, wait_ms)
        self.group = group
        self.master = master
        self.wait_ms = wait_ms

    def __str__(self) -> str:
        return f"master {self.master!r} of group {self.group!r} may be alive; stop it, and force again after {self.wait_ms} ms"


class NotElectable(ZenitError):
    """A replica that may lack acknowledged messages cannot be elected. Args: group, replica, electable (names as text)."""

    code = 2012

    def __init__(self, group: str, replica: str, electable: str) -> None:
        super().__init__(group, replica, electable)
        self.group = group
        self.replica = replica
        self.electable = electable

    def __str__(self) -> str:
        return (
            f"{self.replica!r} may lack acknowledged messages of group {self.group!r}; electable: {self.electable or 'nobody'}"
            " (an operator may force it and lose them)"
        )


class ReplicaNameTaken(ZenitError):
    """Another store registers under the name of a replica that is alive. Args: group, replica, address (of the one alive)."""

    code, retriable = 2014, True

    def __init__(self, group: str, replica: str, address: str) -> None:
        super().__init__(group, replica, address)
        self.group = group
        self.replica = replica
        self.address = address

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} of group {self.group!r} is alive at {self.address}; give this one another name"
        )


class GroupNodeLost(ZenitError):
    """ZooKeeper's node of a group is missing or older than what a replica has persisted. Args: group, epoch, persisted."""

    code = 9040

    def __init__(self, group: str, epoch: int, persisted: int) -> None:
        super().__init__(group, epoch, persisted)
        self.group = group
        self.epoch = epoch
        self.persisted = persisted

    def __str__(self) -> str:
        return (
            f"ZooKeeper knows epoch {self.epoch} of group {self.group!r}, a replica has seen {self.persisted}: data was lost"
            f" or set back; nobody is elected until an operator restores the group: zenit controller restore {self.group}"
            f" --epoch {self.persisted} (or a higher one, where `zenit status` shows it of another replica)"
        )


class GroupNodeDamaged(ZenitError):
    """The content of a group's node makes no sense. Args: group, field, reason."""

    code = 9041

    def __init__(self, group: str, field: str, reason: str) -> None:
        super().__init__(group, field, reason)
        self.group = group
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"node of replica group {self.group!r}: {self.field}: {self.reason}; correct it in ZooKeeper"


class ZooKeeperUnavailable(ZenitError):
    """ZooKeeper did not answer in time, or refused. Args: what, reason."""

    code, retriable = 9042, True

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        return f"ZooKeeper: {self.what}: {self.reason}"


class NotFlushed(ZenitError):
    """A group goes over to synchronous flushing only after its members have flushed all. Args: group, replicas (as text)."""

    code, retriable = 9043, True

    def __init__(self, group: str, replicas: str) -> None:
        super().__init__(group, replicas)
        self.group = group
        self.replicas = replicas

    def __str__(self) -> str:
        return f"group {self.group!r}: {self.replicas} did not flush the whole log yet"


class ReplicaNeeded(ZenitError):
    """A replica cannot be removed from its group now. Args: group, replica, reason."""

    code = 9044

    def __init__(self, group: str, replica: str, reason: str) -> None:
        super().__init__(group, replica, reason)
        self.group = group
        self.replica = replica
        self.reason = reason

    def __str__(self) -> str:
        return f"replica {self.replica!r} stays in group {self.group!r}: {self.reason}"


class StartCounterBehind(ZenitError):
    """A disk was set back: its start counter is not above the one a group knows of the same store. The replica notes
    that it may have forgotten, raises its counter above `current`, and registers again. Args: group, replica, starts, current.
    """

    code = 9046

    def __init__(self, group: str, replica: str, starts: int, current: int) -> None:
        super().__init__(group, replica, starts, current)
        self.group = group
        self.replica = replica
        self.starts = starts
        self.current = current

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} of group {self.group!r} counts {self.starts} starts, the group {self.current}:"
            " its disk was set back"
        )


class RequirementMissing(ZenitError):
    """Something that is not ours is not installed. Args: what, remedy."""

    code = 9045

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} not found; {self.remedy}"


class StaticMasterBehind(ZenitError):
    """A replica has seen a later epoch than the static master it is to follow. Args: group, epoch, persisted."""

    code = 9048

    def __init__(self, group: str, epoch: int, persisted: int) -> None:
        super().__init__(group, epoch, persisted)
        self.group = group
        self.epoch = epoch
        self.persisted = persisted

    def __str__(self) -> str:
        return (
            f"the static master of group {self.group!r} is in epoch {self.epoch}, a replica has seen {self.persisted}: the"
            " master's store is another one or was set back; name the replica with all messages as static_master instead"
        )


class WrongEventLoop(ZenitError):
    """An object of `zenitmq.aio` is used on another event loop than before. Args: what."""

    code = 9110

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this {self.what} belongs to another event loop; make one on each loop"


class NotARequest(ZenitError):
    """A message without what a reply needs: nobody waits for one. Args: message_id, missing (the property's name)."""

    code = 9100

    def __init__(self, message_id: str, missing: str) -> None:
        super().__init__(message_id, missing)
        self.message_id = message_id
        self.missing = missing

    def __str__(self) -> str:
        return f"message {self.message_id} has no property {self.missing}: it was not sent by `request`"


class RequesterGone(ZenitError):
    """A reply is stored, but the one who asked is not connected to that broker. Args: client_id, correlation_id."""

    code = 9101

    def __init__(self, client_id: str, correlation_id: str) -> None:
        super().__init__(client_id, correlation_id)
        self.client_id = client_id
        self.correlation_id = correlation_id

    def __str__(self) -> str:
        return (
            f"the client that waits for reply {self.correlation_id} is not connected: {self.client_id};"
            " the reply is kept in the log"
        )


class TooManyRequests(ZenitError):
    """So many requests wait for their replies already. Args: limit."""

    code, retriable = 9102, True

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.limit} requests wait for their replies already"


class TraceDamaged(ZenitError):
    """The body of a trace message is none. Args: reason."""

    code = 9103

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not a trace: {self.reason}"


class ForeignLog(ZenitError):
    """A store that is new to a group has a log already, which no master of the group has written: it would pass for a
    copy. Args: group, replica, log_end (bytes)."""

    code = 9049

    def __init__(self, group: str, replica: str, log_end: int) -> None:
        super().__init__(group, replica, log_end)
        self.group = group
        self.replica = replica
        self.log_end = log_end

    def __str__(self) -> str:
        return (
            f"replica {self.replica!r} is new to group {self.group!r} and has a log of its own up to {self.log_end}: start it"
            " with an empty directory, or, where the group shall have that log, let it be the first to join a new group"
        )


def error_classes() -> dict[int, type[ZenitError]]:
    """The table {code: class} of the whole tree, read off the classes themselves."""
    table: dict[int, type[ZenitError]] = {}
    pending: list[type[ZenitError]] = [ZenitError]
    while pending:
        cls = pending.pop()
        table.setdefault(cls.code, cls)
        pending.extend(cls.__subclasses__())
    return table


def error_from_wire(code: int, args: list[object], remark: str) -> ZenitError:
    """The error a reply carries; one of an unknown code or with odd facts becomes a ZenitError with the remark."""
    cls = error_classes().get(code, ZenitError)
    if cls is not ZenitError:
        with contextlib.suppress(TypeError):  # facts of another number, from a newer peer
            return cls(*args)
    return ZenitError(remark or f"error {code}")


class DuplicateClient(ZenitError):
    """Another process that is alive goes by the same client id. Args: client_id, host, pid."""

    code = 9051

    def __init__(self, client_id: str, host: str, pid: int) -> None:
        super().__init__(client_id, host, pid)
        self.client_id = client_id
        self.host = host
        self.pid = pid

    def __str__(self) -> str:
        return (
            f"client id {self.client_id!r} is in use by process {self.pid} on {self.host!r}: give each client its own, or"
            " wait until that one has been silent for three heartbeats"
        )


class QueueNotOwned(ZenitError):
    """The member does not have the lock of the queue, or not any more. Args: group, topic, queue_id."""

    code = 9050

    def __init__(self, group: str, topic: str, queue_id: int) -> None:
        super().__init__(group, topic, queue_id)
        self.group = group
        self.topic = topic
        self.queue_id = queue_id

    def __str__(self) -> str:
        return (
            f"queue {self.queue_id} of topic {self.topic} is not this member's of group {self.group} (any more): lock it anew,"
            " and go on where the group has committed"
        )


class NoOrigin(ZenitError):
    """A dead letter does not say which topic it came from. Args: message_id."""

    code = 9090

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"dead letter {self.message_id} does not say which topic it came from; name one: --to TOPIC"


class OffsetFileInUse(ZenitError):
    """Another broadcasting member on this machine has the same group and instance name. Args: path."""

    code = 9080

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} belongs to a consumer that runs already; give this one another `instance=`"


class OffsetFileFailed(ZenitError):
    """The file of a broadcasting member's offsets cannot be read or written. Args: path, reason."""

    code, retriable = 9081, True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"offsets are not kept in {self.path}: {self.reason}"
