"""What is set of lite topics: at their parent topic, and at the groups that receive from it, under RocketMQ's names. Pure.

topic   message.type=LITE              its messages name a lite topic, each
        lite.topic.expiration          minutes after which an idle lite topic is collected; -1 = never
group   lite.bind.topic                the one parent that the group may receive from; none = any
        lite.sub.model                 Shared: several members may subscribe to one lite topic; Exclusive: the newcomer alone
        lite.sub.client.quota          the most lite topics that one member may subscribe to
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidName, InvalidParameter
from ..names import check_topic
from ..route import TYPE_ATTRIBUTE

LITE: Final = "LITE"
EXPIRATION: Final = "lite.topic.expiration"
NEVER: Final = -1
EXPIRATION_MINUTES_MAX: Final = 30 * 24 * 60

BIND_TOPIC: Final = "lite.bind.topic"
SUB_MODEL: Final = "lite.sub.model"
CLIENT_QUOTA: Final = "lite.sub.client.quota"
GROUP_ATTRIBUTES: Final = (BIND_TOPIC, SUB_MODEL, CLIENT_QUOTA)

SHARED: Final = "Shared"
EXCLUSIVE: Final = "Exclusive"
CLIENT_QUOTA_DEFAULT: Final = 2000
CLIENT_QUOTA_MAX: Final = 1_000_000

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class LiteGroup:
    """A group's settings. `bind_topic`: "" = any parent."""

    bind_topic: str = ""
    is_exclusive: bool = False
    client_quota: int = CLIENT_QUOTA_DEFAULT


def is_lite_parent(attributes: Mapping[str, str]) -> bool:
    """Whether a topic with these attributes has lite topics."""
    return attributes.get(TYPE_ATTRIBUTE) == LITE


def expiration_ms(attributes: Mapping[str, str]) -> int | None:
    """After how long an idle lite topic of the parent is collected; None = never, or not a number (an older broker's)."""
    minutes = _number(attributes.get(EXPIRATION, ""))
    return None if minutes is None or minutes <= 0 else minutes * _MINUTE_MS


def check_topic_attribute(name: str, value: str) -> None:
    """Raises InvalidParameter for a wrong value of an attribute of ours; others are the user's own."""
    if name == EXPIRATION:
        minutes = _number(value)
        if minutes is None or (minutes != NEVER and not 1 <= minutes <= EXPIRATION_MINUTES_MAX):
            raise InvalidParameter(name, value[:64], f"minutes, 1 to {EXPIRATION_MINUTES_MAX}, or -1 = never")


def check_group_attribute(name: str, value: str) -> None:
    """Raises InvalidParameter for a wrong value of one of GROUP_ATTRIBUTES."""
    if name == SUB_MODEL:
        if value not in (SHARED, EXCLUSIVE):
            raise InvalidParameter(name, value[:64], f"{SHARED} or {EXCLUSIVE}")
    elif name == CLIENT_QUOTA:
        quota = _number(value)
        if quota is None or not 1 <= quota <= CLIENT_QUOTA_MAX:
            raise InvalidParameter(name, value[:64], f"1 to {CLIENT_QUOTA_MAX}")
    elif value:
        try:
            check_topic(value)
        except InvalidName as error:
            raise InvalidParameter(name, value[:64], f"a topic ({error.rule}), or nothing = any") from error


def lite_group(attributes: Mapping[str, str]) -> LiteGroup:
    """Of a group with these attributes; a wrong value (an older broker's) counts as the default."""
    quota = _number(attributes.get(CLIENT_QUOTA, ""))
    return LiteGroup(
        attributes.get(BIND_TOPIC, ""),
        attributes.get(SUB_MODEL) == EXCLUSIVE,
        quota if quota is not None and quota >= 1 else CLIENT_QUOTA_DEFAULT,
    )


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 9 else None
