"""ZenitMQ for asyncio: the classes of `zenitmq` under the same names, with what waits as coroutines.

    from zenitmq.aio import Admin, LiteConsumer, Producer, PullConsumer, PushConsumer
    from zenitmq.aio import SimpleConsumer, TransactionProducer

Messages, receipts and errors are those of `zenitmq`. docs/guide/asyncio.md tells what cancellation means.
"""

from __future__ import annotations

from .client.aio.admin import Admin as Admin
from .client.aio.lite_consumer import LiteConsumer as LiteConsumer
from .client.aio.producer import Producer as Producer
from .client.aio.pull_consumer import PullConsumer as PullConsumer
from .client.aio.push_consumer import PushConsumer as PushConsumer
from .client.aio.simple_consumer import SimpleConsumer as SimpleConsumer
from .client.aio.transaction_producer import TransactionProducer as TransactionProducer

__all__ = ["Admin", "LiteConsumer", "Producer", "PullConsumer", "PushConsumer", "SimpleConsumer", "TransactionProducer"]
