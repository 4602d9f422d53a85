"""The clients that are connected: which groups they are in, what they subscribe to, and what is pushed to them.

A client has a connection for each broker name, and sends its heartbeats over each. It is present while one of them is open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ...model.clock import monotonic_ms
from ...model.errors import AccessDenied, BrokerBusy, InvalidParameter, ZenitError
from ...model.handles.transaction import TransactionId
from ...model.ids import HostAddress, offset_message_id
from ...model.queue import PhysicalOffset
from ...model.redelivery import is_retry_topic
from ...model.subscription import Subscription
from ...record.kernel import StoredMessage, decode_record
from ...remoting.commands import CheckTransaction, OffsetsReset, PushReply
from ..back.foreign_client import ForeignClient
from .bodies import ClassicHeartbeat, reset_body, subscription_of
from .calls import BrokerPorts, ClassicCall, ClassicLink
from .codes import ClassicCode
from .frames import IS_ONE_WAY, ClassicFrame
from .records import readable, rewritten

log = logging.getLogger(__name__)

CLIENT_ID_LENGTH_MAX: Final = 255
LINK_CLIENTS_MAX: Final = 64
"""RocketMQ's clients have a connection of their own each."""
LINK_BYTES_MAX: Final = 4 * 1024 * 1024
CLIENTS_MAX: Final = 100_000
BYTES_MAX: Final = 128 * 1024 * 1024
"""Of the heartbeats of all clients, as they came."""
RETRY_AFTER_MS: Final = 1_000
_FLAG_FORCE: Final = "true"
ASKED_AGAIN_MS: Final = 60_000
"""So long a producer group stays left out for which a client's user lacks the right."""
LEFT_OUT_MAX: Final = 8
"""Where more are refused, all are left out."""
_PUB_ON_GROUP: Final = "pub", "group:"

_Key = tuple[str, str]
"""(user, client id)."""


class ClassicClient:
    """One client and its connections. See Listener."""

    shares_queues = True

    def __init__(self, ports: BrokerPorts, call: ClassicCall, client_id: str) -> None:
        self._ports = ports
        self.back = call.back
        self.client_id = client_id
        self.key: _Key = (call.back.user, client_id)
        self.heartbeat = ClassicHeartbeat(client_id, (), ())
        """The last one that brokers took; without groups before there was one."""
        self.turn = asyncio.Lock()
        """Its heartbeats go to the brokers one after the other."""
        self.language = call.frame.language
        self.version = call.frame.version
        self._host = str(call.link.peer)
        self.links: dict[ClassicLink, None] = {}
        self.size_bytes = 0
        """Of its heartbeat, as it came."""
        self._left_out: set[str] = set()
        self._asked_again_ms = 0

    async def join(self, heartbeat: ClassicHeartbeat) -> None:
        """Brokers are told what it says; without the producer groups for which its user has no right: as at RocketMQ's brokers,
        nobody needs one to say so. Brokers ask it about none of their transactions. Raises what brokers refuse."""
        if monotonic_ms() >= self._asked_again_ms:
            self._left_out.clear()
        while True:
            groups = tuple(group for group in heartbeat.producer_groups if group not in self._left_out)
            try:
                await self.back.presence.join(self._foreign(replace(heartbeat, producer_groups=groups)), self)
                return
            except AccessDenied as error:
                kind, group = error.resource[: len(_PUB_ON_GROUP[1])], error.resource[len(_PUB_ON_GROUP[1]) :]
                if (error.action, kind) != _PUB_ON_GROUP or group not in groups:
                    raise
                self._asked_again_ms = monotonic_ms() + ASKED_AGAIN_MS
                self._left_out.update((group,) if len(self._left_out) < LEFT_OUT_MAX else groups)
                log.info("a producer group is left out client=%s: %s", self.client_id, error)

    def _foreign(self, heartbeat: ClassicHeartbeat) -> ForeignClient:
        """As the cluster is told of it when it says this."""
        consumers = tuple(
            (one.group, one.model, tuple((row.topic, row.kind, row.expression) for row in one.subscriptions))
            for one in heartbeat.consumers
        )
        return ForeignClient(
            self.client_id,
            f"RocketMQ {self.language}",
            str(self.version),
            self._host,
            heartbeat.producer_groups,
            consumers,
        )

    def push(self, code: ClassicCode, fields: dict[str, str], body: bytes = b"", *, is_one_way: bool = True) -> bool:
        """To any of its connections; False if none takes it."""
        frame = ClassicFrame(code, 0, IS_ONE_WAY if is_one_way else 0, fields=fields, body=body)
        return any(link.push(frame) for link in reversed(list(self.links)))

    def on_check(self, request: CheckTransaction, record: bytes) -> None:
        """See Listener. The answer names the transaction by the id that is told here."""
        try:
            message = decode_record(record)
            broker_name = TransactionId.parse(request.transaction_id).broker_name
            host = self._ports.host_of(broker_name)
            body = rewritten(message, host.encode(), readable(self.language, self.version))
        except ZenitError as error:
            log.warning("a check of a transaction cannot be passed on: %s", error)
            return
        fields = {
            "commitLogOffset": str(request.half_offset),
            "msgId": message.message_id,
            "offsetMsgId": offset_message_id(host.encode(), PhysicalOffset(message.physical_offset)),
            "tranStateTableOffset": str(message.queue_offset),
            "transactionId": request.transaction_id,
        }
        self.push(ClassicCode.CHECK_TRANSACTION_STATE, fields, body)

    def on_group_changed(self) -> None:
        """See Listener."""
        self.tell_groups([consumer.group for consumer in self.heartbeat.consumers])

    def tell_groups(self, groups: Sequence[str]) -> None:
        """These have other members now. Who has joined is told, too: Java's lite pull consumer takes its queues then, and would
        wait for 20 s."""
        for group in groups:
            self.push(ClassicCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})

    def on_offsets_reset(self, request: OffsetsReset) -> None:
        """See Listener."""
        fields = {"group": request.group, "isForce": _FLAG_FORCE, "timestamp": "0", "topic": request.topic}
        body = reset_body(request.topic, request.broker_name, request.offsets, as_list=self.language == "CPP")
        self.push(ClassicCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)

    def on_reply(self, request: PushReply, record: bytes) -> None:
        """See Listener."""
        try:
            message = decode_record(record)
            fields = _reply_fields(message, self._ports.host_of(request.broker_name))
            body = message.body
        except ZenitError as error:
            log.warning("a reply to a client's request cannot be passed on: %s", error)
            return
        self.push(ClassicCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, body, is_one_way=False)


def _reply_fields(message: StoredMessage, host: HostAddress) -> dict[str, str]:
    born = message.born_host
    return {
        "bornHost": str(HostAddress(born[:-4], int.from_bytes(born[-4:], "big"))),
        "bornTimestamp": str(message.born_at_ms),
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "flag": str(message.flag),
        "producerGroup": "",
        "properties": message.properties_as_stored.decode("utf-8", "replace"),
        "queueId": str(message.queue_id),
        "reconsumeTimes": str(message.reconsume_times),
        "storeHost": str(host),
        "storeTimestamp": str(message.stored_at_ms),
        "sysFlag": "0",
        "topic": message.queue.topic,
        "unitMode": "false",
    }


class ClassicClients:
    """Of one process; on the event loop. Clients of other users are others, whatever id they give."""

    def __init__(self, ports: BrokerPorts) -> None:
        self._ports = ports
        self._clients: dict[_Key, ClassicClient] = {}
        self._groups: dict[tuple[str, str], dict[str, ClassicClient]] = {}  # (user, group): by client id
        self._of_links: dict[ClassicLink, set[_Key]] = {}
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._clients)

    async def heard(self, call: ClassicCall, heartbeat: ClassicHeartbeat) -> None:
        """A heartbeat came: the client is present with what it says. Raises what brokers refuse: it then stays what it was."""
        client_id = heartbeat.client_id
        if not 1 <= len(client_id) <= CLIENT_ID_LENGTH_MAX:
            raise InvalidParameter("clientID", client_id[:64], f"1 to {CLIENT_ID_LENGTH_MAX} characters")
        for consumer in heartbeat.consumers:
            for row in consumer.subscriptions:
                subscription_of(row)
        key = call.back.user, client_id
        self._check_room(key, call.link, len(call.frame.body))
        client = self._clients.get(key)
        if client is None or client.back is not call.back:
            if client is not None:
                self._lose(client)
            client = self._clients[key] = ClassicClient(self._ports, call, client_id)
        self._bind(client, call.link)
        async with client.turn:
            if self._clients.setdefault(key, client) is client:
                self._bind(client, call.link)
                await self._join(client, heartbeat, len(call.frame.body))
                return
        await self.heard(call, heartbeat)  # it left while this one waited, and has come again

    def _check_room(self, key: _Key, link: ClassicLink, size_bytes: int) -> None:
        """Raises InvalidParameter where one connection tells of too much, BrokerBusy where all do."""
        others = self._of_links.get(link, set()) - {key}
        if len(others) >= LINK_CLIENTS_MAX:
            raise InvalidParameter("clientID", key[1][:64], f"at most {LINK_CLIENTS_MAX} clients on one connection")
        if sum(self._clients[one].size_bytes for one in others) + size_bytes > LINK_BYTES_MAX:
            expected = f"at most {LINK_BYTES_MAX} bytes of heartbeats of all clients of one connection"
            raise InvalidParameter("consumerDataSet", f"{size_bytes} bytes", expected)
        known = self._clients.get(key)
        if known is None and len(self._clients) >= CLIENTS_MAX:
            raise BrokerBusy(RETRY_AFTER_MS, f"this proxy has {CLIENTS_MAX} clients of remoting")
        if self._size_bytes + size_bytes - (known.size_bytes if known is not None else 0) > BYTES_MAX:
            raise BrokerBusy(RETRY_AFTER_MS, f"this proxy has {BYTES_MAX} bytes of heartbeats of its clients")

    def _bind(self, client: ClassicClient, link: ClassicLink) -> None:
        client.links[link] = None
        self._of_links.setdefault(link, set()).add(client.key)

    async def _join(self, client: ClassicClient, heartbeat: ClassicHeartbeat, size_bytes: int) -> None:
        """What a client says counts once no broker has refused it."""
        try:
            await client.join(heartbeat)
        except ZenitError:
            await self._stay(client)
            raise
        if self._clients.get(client.key) is client:
            before = {one.group for one in client.heartbeat.consumers}
            self._unlist(client)
            client.heartbeat = heartbeat
            self._list(client)
            client.tell_groups([one.group for one in heartbeat.consumers if one.group not in before])
            self._set_size(client, size_bytes)

    async def _stay(self, client: ClassicClient) -> None:
        """It is what it was before it said what is refused."""
        if client.heartbeat.producer_groups or client.heartbeat.consumers:
            with suppress(ZenitError):
                await client.join(client.heartbeat)
        else:
            self._lose(client)

    async def left(self, user: str, client_id: str, producer_group: str, consumer_group: str) -> None:
        """A client leaves one of its groups. With the last one it is gone."""
        client = self._clients.get((user, client_id))
        if client is None:
            return
        async with client.turn:
            old = client.heartbeat
            heartbeat = replace(
                old,
                producer_groups=tuple(group for group in old.producer_groups if group != producer_group),
                consumers=tuple(one for one in old.consumers if one.group != consumer_group),
            )
            if not heartbeat.producer_groups and not heartbeat.consumers:
                self._drop(client)
                await client.back.presence.leave(client_id, client)
            elif heartbeat != old:
                await self._join(client, heartbeat, client.size_bytes)

    async def closed(self, link: ClassicLink) -> None:
        """A connection has ended."""
        for key in self._of_links.pop(link, ()):
            client = self._clients.get(key)
            if client is None:
                continue
            client.links.pop(link, None)
            if not client.links:
                self._lose(client)

    def member(self, group: str, client_id: str) -> ClassicClient | None:
        """A member of a consumer group, whosever it is, that is connected here. Who asks must have the right to know."""
        for (_, listed), members in self._groups.items():
            if listed == group and client_id in members:
                return members[client_id]
        return None

    def subscription(self, user: str, group: str, topic: str, link: ClassicLink) -> Subscription | None:
        """What a group's members of a user want of a topic, as the one of that connection told it, or else the one that came
        last; None if none has told."""
        members = list(self._groups.get((user, group), {}).values())
        members.sort(key=lambda client: link in client.links)
        for client in reversed(members):
            for consumer in client.heartbeat.consumers:
                for row in consumer.subscriptions if consumer.group == group else ():
                    if row.topic == topic:
                        return subscription_of(row)
        return Subscription(topic) if members and is_retry_topic(topic) else None

    def _lose(self, client: ClassicClient) -> None:
        """It may live on at another proxy."""
        self._drop(client)
        client.back.presence.lose(client.client_id, client)

    def _drop(self, client: ClassicClient) -> None:
        self._unlist(client)
        client.heartbeat = ClassicHeartbeat(client.client_id, (), ())
        self._set_size(client, 0)
        for link in client.links:
            self._of_links.get(link, set()).discard(client.key)
        client.links.clear()
        if self._clients.get(client.key) is client:
            del self._clients[client.key]

    def _set_size(self, client: ClassicClient, size_bytes: int) -> None:
        self._size_bytes += size_bytes - client.size_bytes
        client.size_bytes = size_bytes

    def _list(self, client: ClassicClient) -> None:
        for consumer in client.heartbeat.consumers:
            self._groups.setdefault((client.back.user, consumer.group), {})[client.client_id] = client

    def _unlist(self, client: ClassicClient) -> None:
        for consumer in client.heartbeat.consumers:
            key = client.back.user, consumer.group
            members = self._groups.get(key, {})
            members.pop(client.client_id, None)
            if not members:
                self._groups.pop(key, None)
