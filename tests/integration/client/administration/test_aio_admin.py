"""The administrator's coroutines: each method of `Admin`, against real brokers, and several at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from zenitmq import (
    FIRST,
    ClientClosed,
    GroupNotFound,
    Message,
    MessageNotFound,
    TopicNotFound,
    aio,
)
from zenitmq.testing import LocalCluster


def test_the_administrators_coroutines(one_broker: LocalCluster) -> None:
    async def story(namesrv: str) -> None:
        async with aio.Admin(namesrv) as admin, aio.Producer(namesrv=namesrv) as producer:
            await admin.create_topic("orders", queues=2)
            receipt = await producer.send(Message("orders", b"one", keys="k-1"))
            assert "orders" in await admin.topics()
            assert [topic["name"] for topic in await admin.topic_configs() if topic["name"] == "orders"] == ["orders"]
            assert len((await admin.describe_topic("orders"))["queues"]) == 2
            assert (await admin.route("orders")).topic == "orders"
            queues = await admin.queues("orders")
            ends = await asyncio.gather(*(admin.max_offset(queue) for queue in queues))
            assert sum(ends) == 1
            assert await admin.min_offset(queues[0]) == 0
            assert await admin.search_offset(receipt.queue, datetime(2020, 1, 1, tzinfo=UTC)) == 0
            assert (await admin.view_message(receipt.message_id)).body == b"one"
            assert [message.body for message in await admin.query_by_key("orders", "k-1")] == [b"one"]
            with pytest.raises(MessageNotFound):
                await admin.view_message("0" * 32)
            await admin.create_group("billing")
            async with aio.PullConsumer("billing", namesrv=namesrv, start_from=FIRST) as consumer:
                consumer.subscribe("orders")
                assert [message.body for message in await consumer.poll(timeout=5)] == [b"one"]
            assert "billing" in [group["name"] for group in await admin.groups()]
            assert (await admin.describe_group("billing"))["lag"] == 0
            assert sum((await admin.lag("billing")).values()) == 0
            rows = await admin.reset_offset("billing", "orders", "earliest", dry_run=True)
            assert sum(row["from"] - row["to"] for row in rows) == 1
            await admin.delete_group("billing")
            with pytest.raises(GroupNotFound):
                await admin.describe_group("billing")
            assert len((await admin.cluster())["brokers"]) == 1
            assert (await admin.broker_config())["port"]
            assert "positions" in await admin.broker_statistics("broker-a")
            assert await admin.wipe_write_permission("broker-a")
            assert await admin.add_write_permission("broker-a")
            await admin.delete_topic("orders")
            with pytest.raises(TopicNotFound):
                await admin.route("orders")
        with pytest.raises(ClientClosed):
            await admin.topics()

    asyncio.run(story(one_broker.namesrv))
