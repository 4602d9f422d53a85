"""The broker's handlers that the embedded engine has: all but those for delays, transactions, sequences, queries and Spark."""

from __future__ import annotations

from ...broker.handlers.registry import PlainHandlers
from ...remoting.commands import CreateTopic
from ...remoting.server import Call
from .refusals import check_attributes


class EmbeddedHandlers(PlainHandlers):
    """Under the engine's lock."""

    def on_create_topic(self, call: Call[CreateTopic]) -> None:
        """Also raises EngineLacks for a topic of another kind than the engine knows."""
        check_attributes(call.request.attributes)
        super().on_create_topic(call)
