"""Creates accumulators, each with its own message ids, whose records carry this process's address towards the broker."""

from __future__ import annotations

from ...model.message import BODY_BYTES_MAX
from ...record.kernel import Accumulator
from ..connection.connection import Connection, local_ip_towards
from ..connection.unique_ids import BornTime, new_id_prefix
from .outgoing import Parts


def new_accumulator(
    connection: Connection, topic: str, capacity: int, address: str | None, own_properties: bytes = b""
) -> Accumulator:
    """Creates one for records that go to the broker at `address` ("host:port"; None = not known yet).

    `own_properties`: encoded, for every record.
    """
    ip = connection.local_ip if address is None else local_ip_towards(address)
    return Accumulator(
        topic.encode(),
        capacity,
        id_prefix=new_id_prefix(ip),
        born_host=ip + bytes(4),
        store_host_bytes=20 if address is not None and address.startswith("[") else 8,
        body_max=BODY_BYTES_MAX,
        own_properties=own_properties,
    )


def topic_accumulator(connection: Connection, topic: str, capacity: int, own_properties: bytes = b"") -> Accumulator:
    """Creates one for records that go to any broker of the topic."""
    route = connection.routes.cached(topic)
    address = next(
        (broker.master_address for broker in (route.brokers if route else ()) if broker.master_address), None
    )
    return new_accumulator(connection, topic, capacity, address, own_properties)


def single_record(connection: Connection, topic: str, parts: Parts, address: str) -> bytes:
    """Encodes one message as a record, in a buffer of its own. Raises MessageIllegal, MessageTooLarge."""
    accumulator = new_accumulator(connection, topic, 1, address)  # the message makes its buffer as large as it needs
    accumulator.begin(*BornTime().read())
    accumulator.append(*parts)
    buffer, used, *_ = accumulator.swap(bytearray(1))
    return bytes(memoryview(buffer)[:used])
