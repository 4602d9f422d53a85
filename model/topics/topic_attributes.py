"""Which attributes a topic may have, and their values. Pure.

A name with a dot is a setting, so it is one of RocketMQ's; a text of the user's own has a name without a dot that resembles
none of them (`owner=shop`). Anything else is taken for a slip: a setting that does nothing would look as if it did.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from ..errors import InvalidParameter
from ..route import CLEANUP_ATTRIBUTE, CLEANUPS, QUEUE_TYPE_ATTRIBUTE, QUEUE_TYPES, TYPE_ATTRIBUTE, TYPES
from .lite_settings import EXPIRATION, check_topic_attribute

ATTRIBUTE_LENGTH_MAX: Final = 1024
RESERVE_TIME: Final = "reserve.time"
"""RocketMQ's: kept, without an effect, as in RocketMQ itself."""
KNOWN: Final = (CLEANUP_ATTRIBUTE, EXPIRATION, TYPE_ATTRIBUTE, QUEUE_TYPE_ATTRIBUTE, RESERVE_TIME)
_VALUES: Final = {TYPE_ATTRIBUTE: TYPES, QUEUE_TYPE_ATTRIBUTE: QUEUE_TYPES, CLEANUP_ATTRIBUTE: CLEANUPS}
_SPELLED: Final = {"".join(filter(str.isalnum, name)): name for name in KNOWN}
_NEAR: Final = 0.6  # how similar a name is that counts as a slip


def check_attribute(name: str, value: str) -> None:
    """Raises InvalidParameter."""
    if not name or len(name) + len(value) > ATTRIBUTE_LENGTH_MAX:
        raise InvalidParameter("attribute", name[:64], f"name and value of 1 to {ATTRIBUTE_LENGTH_MAX} characters")
    if name not in KNOWN:
        _check_own(name)
    elif name in _VALUES and value not in _VALUES[name]:
        raise InvalidParameter(name, value[:64], f"one of {', '.join(_VALUES[name])}")
    check_topic_attribute(name, value)


def _check_own(name: str) -> None:
    letters = "".join(filter(str.isalnum, name.lower()))[:64]
    near = get_close_matches(letters, _SPELLED, 1, _NEAR)
    if near:
        expected = f"{_SPELLED[near[0]]}, which it resembles; a name of your own resembles none of {', '.join(KNOWN)}"
        raise InvalidParameter("attribute", name[:64], expected)
    if "." in name:
        raise InvalidParameter(
            "attribute", name[:64], f"one of {', '.join(KNOWN)}, or a name of your own, without a dot"
        )
