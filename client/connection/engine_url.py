"""Names of engines in this process, where others have the addresses of name servers. Pure.

memory://NAME          the messages are in memory, while the program runs; without a name it is "default"
embedded:///DIRECTORY  one log a queue in a directory; one program at a time has it
local:///DIRECTORY     the whole store in a directory; likewise
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

from ...model.errors import InvalidParameter

MEMORY: Final = "memory"
EMBEDDED: Final = "embedded"
LOCAL: Final = "local"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class EngineUrl(NamedTuple):
    """`place`: the name of a `memory` engine, the directory of the others."""

    scheme: str
    place: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}"


def is_engine(text: str) -> bool:
    """Whether this names an engine, rightly or wrongly, and no name servers."""
    return "://" in text


def parse_engine(name: str, text: str) -> EngineUrl:
    """Raises InvalidParameter. `name`: the setting, for the error."""
    scheme, _, place = text.partition("://")
    if scheme == MEMORY:
        place = place or "default"
        if _NAME.fullmatch(place) is None:
            raise InvalidParameter(name, text[:200], "memory://NAME: 1 to 64 of the letters a-z, A-Z, 0-9, - and _")
    elif scheme in (EMBEDDED, LOCAL):
        is_path = place.startswith("/") and "\0" not in place
        place = posixpath.normpath(place)
        if not is_path or not place.strip("/"):
            raise InvalidParameter(
                name, text[:200], f'{scheme}:///DIRECTORY: an absolute path, so three slashes, of a directory below "/"'
            )
    else:
        raise InvalidParameter(
            name,
            text[:200],
            'addresses like "127.0.0.1:9876", or an engine: memory://NAME, embedded:///DIRECTORY, local:///DIRECTORY',
        )
    return EngineUrl(scheme, place)
