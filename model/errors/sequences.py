"""Errors of idempotent sending: batches with the producer's sequence numbers. Pure."""

from __future__ import annotations

from .base import ZenitError


class OutcomeUnknown(ZenitError):
    """A batch got no answer: it may be stored or not, and a copy in flight may still be stored. Args: queue, reason."""

    code = 9075

    def __init__(self, queue: str, reason: str) -> None:
        super().__init__(queue, reason)
        self.queue = queue
        self.reason = reason

    def __str__(self) -> str:
        return f"it is unknown whether {self.queue} has the messages: no answer in time; the last try: {self.reason}"


class OutOfOrderSequence(ZenitError):
    """The queue lacks messages that this producer sent before: nothing was stored. Args: first, last_sequence.

    `last_sequence`: the last one of this producer that the broker knows in the queue, -1 for none.
    """

    code = 9076

    def __init__(self, first: int, last_sequence: int) -> None:
        super().__init__(first, last_sequence)
        self.first = first
        self.last_sequence = last_sequence

    def __str__(self) -> str:
        return f"sequence {self.first} does not follow {self.last_sequence}, the last one of this producer in the queue"


class SequenceKnownInPart(ZenitError):
    """The queue has the first messages of a batch, but not the rest; this try stored nothing. Args: first, last_sequence.

    A crash in the middle of an earlier try causes this; the sender continues behind `last_sequence`.
    """

    code = 9077

    def __init__(self, first: int, last_sequence: int) -> None:
        super().__init__(first, last_sequence)
        self.first = first
        self.last_sequence = last_sequence

    def __str__(self) -> str:
        return (
            f"the queue already has the batch from sequence {self.first} up to {self.last_sequence}, but not the rest"
        )
