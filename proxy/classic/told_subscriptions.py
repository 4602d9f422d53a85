"""Subscriptions that members of a group told to another process of a proxy, or to the one before: brokers know them."""

from __future__ import annotations

import json
from typing import Final

from ...model.errors import RemoteProtocolError, ZenitError
from ...model.subscription import Subscription
from ...remoting.commands import GetGroupClients
from ..back.parts import Back
from ..back.recent_answers import RecentAnswers
from .bodies import ClassicSubscription, subscription_of

KNOWN_MS: Final = 2_000
GROUPS_MAX: Final = 10_000

_Subscriptions = dict[str, Subscription]


class ToldSubscriptions:
    """Of one process; on the event loop."""

    def __init__(self) -> None:
        self._known: RecentAnswers[tuple[Back, str], _Subscriptions] = RecentAnswers(
            self._find, known_ms=KNOWN_MS, size_max=GROUPS_MAX
        )

    async def get(self, back: Back, group: str, topic: str, *, deadline_ms: int) -> Subscription | None:
        """What a member of the group wants of a topic; None where brokers do not know, or do not tell."""
        try:
            return (await self._known.get((back, group), deadline_ms=deadline_ms)).get(topic)
        except ZenitError:
            return None

    async def _find(self, asked: tuple[Back, str], deadline_ms: int) -> _Subscriptions:
        back, group = asked
        name = await back.backend.any_master(deadline_ms=deadline_ms)
        _, payload = await back.backend.call_master(name, GetGroupClients(group), deadline_ms=deadline_ms)
        return subscriptions_told(payload)


def subscriptions_told(payload: bytes) -> dict[str, Subscription]:
    """{topic: what one of the members wants} of the document of GetGroupClients. Pure. Raises RemoteProtocolError, and what a
    wrong expression raises."""
    try:
        rows = [ClassicSubscription(*row) for one in json.loads(payload)["clients"] for row in one["subscriptions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteProtocolError("what a broker tells of a group's members cannot be read") from error
    return {row.topic: subscription_of(row) for row in rows}
