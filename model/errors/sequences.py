"""What may become of a batch that carries its producer's sequence. Pure."""

from __future__ import annotations

from .base import ZenitError


class OutcomeUnknown(ZenitError):
    """A batch was sent, its answer never came: it may be stored or not, and a late copy may yet be. Args: queue, reason."""

    code = 9075

    def __init__(self, queue: str, reason: str) -> None:
        super().__init__(queue, reason)
        self.queue = queue
        self.reason = reason

    def __str__(self) -> str:
        return f"whether {self.queue} has the messages is unknown, and nobody answered in time; the last try: {self.reason}"


class OutOfOrderSequence(ZenitError):
    """The queue lacks messages that this producer sent before: nothing was stored. Args: first, last_sequence.

    `last_sequence`: the last one of this producer that the broker knows of in the queue, -1 for none.
    """

    code = 9076

    def __init__(self, first: int, last_sequence: int) -> None:
        super().__init__(first, last_sequence)
        self.first = first
        self.last_sequence = last_sequence

    def __str__(self) -> str:
        return (
            f"sequence {self.first} does not follow {self.last_sequence}, the last that the queue has of this producer"
        )


class SequenceKnownInPart(ZenitError):
    """The queue has the first messages of a batch, not the rest: nothing was stored now. Args: first, last_sequence.

    A crash in the middle of an earlier try does that; whoever sends the batch goes on behind `last_sequence`.
    """

    code = 9077

    def __init__(self, first: int, last_sequence: int) -> None:
        super().__init__(first, last_sequence)
        self.first = first
        self.last_sequence = last_sequence

    def __str__(self) -> str:
        return (
            f"of the batch from sequence {self.first} on, the queue has {self.last_sequence} and those before already"
        )
