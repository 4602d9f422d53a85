"""A broker that keeps records in memory and fails as a test tells it to."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from zenitmq.model.arena import Arena
from zenitmq.model.clock import SystemClock, now_ms
from zenitmq.model.errors import MessageNotFound, QueueNotFound, TopicNotFound, ZenitError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.ids import HostAddress
from zenitmq.record.kernel import MessageBatch, RunKernel, decode_batch, index_topic_hash
from zenitmq.remoting import commands as c
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.server import Call, RequestLoop

SILENT = "silent"  # what a rule may answer: nothing at all


@dataclass
class Queue:
    records: list[bytes] = field(default_factory=list)
    begin: int = 0

    @property
    def end(self) -> int:
        return self.begin + len(self.records)


class FakeBroker:
    """`rule(request)`: an error to answer, SILENT, or None to serve the request. Loop thread, as everything here."""

    def __init__(self, name: str, namesrv: str, topics: dict[str, int], epoch: int = 1) -> None:
        self.name = name
        self.namesrv = namesrv
        self.topics = topics
        self.epoch = epoch
        self.rule: Callable[[c.Request], ZenitError | str | None] = lambda request: None
        self.queues: dict[tuple[str, int], Queue] = {}
        self.batches: list[tuple[str, int, int]] = []  # topic, queue id, count of each batch taken
        self.committed: dict[tuple[str, str, int], int] = {}
        self.begun: dict[tuple[str, str], int] = {}  # (group, topic) -> since when
        self.sent_back: list[bytes] = []  # payloads
        self.consumers: dict[str, dict[str, bytes]] = {}  # group -> client id -> identity
        self.requests: list[c.Request] = []
        self._parked: list[Call] = []
        self._physical = 0
        self._loop = RequestLoop(bind="127.0.0.1:0", arena=Arena(1 << 20, 8 << 20), clock=SystemClock())
        self.address = self._loop.address
        host = HostAddress.parse("127.0.0.1", self._loop.port)
        self._host = host.encode()
        self._kernel = RunKernel(store_host=self._host, record_max=5 << 20, body_max=4 << 20)
        for request_class, handler in {
            c.SendMessages: self._send,
            c.PullMessages: self._pull,
            c.GetMaxOffset: lambda q: c.OffsetReply(self.queue(q).end),
            c.GetMinOffset: lambda q: c.OffsetReply(self.queue(q).begin),
            c.SearchOffset: self._search,
            c.QueryConsumerOffset: lambda q: c.ConsumerOffsetReply(
                self.committed.get((q.group, q.topic, q.queue_id), -1)
            ),
            c.GetBeginOffsets: self._begin_offsets,
            c.UpdateConsumerOffsets: self._commit,
            c.StartConsuming: self._start,
            c.SendBack: self._send_back,
            c.Heartbeat: self._heartbeat,
            c.UnregisterClient: self._leave,
            c.GetConsumerList: lambda q: c.ConsumerListReply(tuple(sorted(self.consumers.get(q.group, ())))),
        }.items():
            self._loop.handle(request_class, self._ruled(handler))
        self._thread = threading.Thread(target=self._loop.run)

    def start(self) -> None:
        self._thread.start()
        self.register()

    def register(self) -> None:
        """Tells the name server what it has now."""
        topics = tuple((name, count, count, 6) for name, count in self.topics.items())
        with RemotingClient() as client:
            registration = c.RegisterBroker("z", self.name, 0, self.address, self.epoch, topics)
            client.call(self.namesrv, registration, timeout_ms=3000)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.stop()
            self._thread.join(5)
            self._loop.close()

    def queue(self, request: c.Request) -> Queue:
        return self._queue(request.topic, request.queue_id)

    def _queue(self, topic: str, queue_id: int) -> Queue:
        queues = self.topics.get(topic)
        if queues is None:
            raise TopicNotFound(topic)
        if not 0 <= queue_id < queues:
            raise QueueNotFound(topic, queue_id, queues)
        return self.queues.setdefault((topic, queue_id), Queue())

    def messages(self, topic: str) -> MessageBatch:
        """All that is stored of a topic, queue by queue. Only while nothing is sent."""
        keys = sorted(key for key in self.queues if key[0] == topic)
        return decode_batch(b"".join(record for key in keys for record in self.queues[key].records), self.name)

    def _ruled(self, handler: Callable) -> Callable[[Call], c.Reply | None]:
        def handle(call: Call) -> c.Reply | None:
            self.requests.append(call.request)
            answer = self.rule(call.request)
            if isinstance(answer, ZenitError):
                raise answer
            if answer == SILENT:
                return None
            takes_calls = (self._send, self._pull, self._heartbeat, self._send_back)
            return handler(call) if handler in takes_calls else handler(call.request)

        return handle

    def _send(self, call: Call) -> c.Reply:
        request = cast(c.SendMessages, call.request)
        queue = self.queue(request)
        records = bytearray(self._loop.arena.view[call.begin : call.end])
        at, end, stored_ms = self._physical, queue.end, now_ms()
        topic = request.topic.encode()
        self._kernel.clear()
        stamped = self._kernel.stamp(
            records,
            0,
            len(records),
            topic,
            index_topic_hash(topic),
            request.count,
            request.queue_id,
            end,
            at,
            stored_ms,
        )
        assert stamped == request.count, stamped
        queue.records.extend(message.record for message in decode_batch(bytes(records)))
        self._physical += len(records)
        self.batches.append((request.topic, request.queue_id, request.count))
        parked, self._parked = self._parked, []
        for waiting in parked:
            self._answer(waiting)
        return c.SendReply(request.queue_id, end, at, stored_ms, self._host)

    def _pull(self, call: Call) -> None:
        self.queue(call.request)
        self._answer(call)

    def _answer(self, call: Call) -> None:
        request = cast(c.PullMessages, call.request)
        queue = self.queue(request)
        at = request.queue_offset
        status, following = GetStatus.FOUND, at
        if at < queue.begin:
            status, following = GetStatus.OFFSET_TOO_SMALL, queue.begin
        elif at > queue.end:
            status, following = GetStatus.OFFSET_OVERFLOW_BADLY, queue.end
        elif at == queue.end:
            self._parked.append(call)
            return
        taken: list[bytes] = []
        while status is GetStatus.FOUND and following < queue.end and len(taken) < request.max_messages:
            record = queue.records[following - queue.begin]
            if taken and sum(map(len, taken)) + len(record) > request.max_bytes:
                break
            taken.append(record)
            following += 1
        reply = c.PullReply(int(status), following, queue.begin, queue.end, len(taken))
        self._loop.reply(call, reply, [b"".join(taken)] if taken else ())

    def _search(self, request: c.SearchOffset) -> c.Reply:
        queue = self.queue(request)
        times = [decode_batch(record)[0].stored_at_ms for record in queue.records]
        return c.OffsetReply(queue.begin + bisect_left(times, request.timestamp_ms))

    def _begin_offsets(self, request: c.GetBeginOffsets) -> c.Reply:
        group, topic = request.group, request.topic
        return c.BeginOffsetsReply(
            tuple(
                (self.committed.get((group, topic, queue_id), -1), self._queue(topic, queue_id).begin)
                for queue_id in request.queue_ids
            ),
            (0,) * len(request.queue_ids),
        )

    def _commit(self, request: c.UpdateConsumerOffsets) -> c.Reply:
        for topic, queue_id, offset in request.offsets:
            key = request.group, topic, queue_id
            if not request.forward_only or offset > self.committed.get(key, -1):
                self.committed[key] = offset
        return c.CommitReply()

    def _send_back(self, call: Call) -> c.Reply:
        """As a broker whose retention was faster than the consumer."""
        self.sent_back.append(call.payload)
        if not call.payload:
            raise MessageNotFound("its physical offset")
        return c.Done()

    def _start(self, request: c.StartConsuming) -> c.Reply:
        key = request.group, request.topic
        if request.start and key not in self.begun and not any(k[:2] == key for k in self.committed):
            self.begun[key] = {"first": 0, "time": request.value}.get(request.start, now_ms())
            for queue_id in range(self.topics[request.topic]):
                queue = self.queues.setdefault((request.topic, queue_id), Queue())
                search = c.SearchOffset(request.topic, queue_id, request.value)
                offset = {"first": queue.begin, "last": queue.end}.get(request.start, self._search(search).offset)
                self.committed[*key, queue_id] = offset
        since_ms = self.begun.get(key, 0 if any(k[:2] == key for k in self.committed) else -1)
        return c.StartReply(since_ms)

    def _heartbeat(self, call: Call) -> c.Reply:
        request = cast(c.Heartbeat, call.request)
        for group, _, _ in request.consumers:
            members = self.consumers.setdefault(group, {})
            is_new = request.client_id not in members
            members[request.client_id] = call.identity
            if is_new:
                self._tell(group)
        return c.HeartbeatReply(1000)

    def _leave(self, request: c.UnregisterClient) -> c.Reply:
        for group, members in self.consumers.items():
            if members.pop(request.client_id, None) is not None:
                self._tell(group)
        return c.Done()

    def _tell(self, group: str) -> None:
        for identity in self.consumers[group].values():
            self._loop.send_to(identity, c.ConsumersChanged(group))
