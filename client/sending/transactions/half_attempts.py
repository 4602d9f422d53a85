"""How half messages get into queues: as sequences that are stored once, by requests of their own."""

from __future__ import annotations

from ....remoting.commands import SendHalves
from ..idempotent.queue_streams import QueueStreams


def half_attempts() -> QueueStreams:
    """The `SendAttempts` of a transaction producer.

    A half message that was stored twice could be committed twice: once by its producer, once by a check of the other copy.
    """
    return QueueStreams(SendHalves, SendHalves)
