"""The tokens of which a scrape must bring one: `Authorization: Bearer TOKEN`.

They are lines of a file that only its owner may read. It is read again when it has changed: so a token is replaced without
a pause by one line more, and later one less. In the server's thread.
"""

from __future__ import annotations

import hmac
import logging
import os
from typing import Final

from ..model.errors import KeyFileRefused
from ..model.security.guarded_file import PRIVATE, read_guarded

log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 4_096
TOKENS_MAX: Final = 8
TOKEN_CHARACTERS_MIN: Final = 16
_SCHEME: Final = "bearer"
_HOW: Final = (
    f"its lines are up to {TOKENS_MAX} tokens, each of {TOKEN_CHARACTERS_MIN} or more ASCII characters without blanks, as "
    "`openssl rand -hex 32` prints one"
)

_Stamp = tuple[int, int, int] | None


class BearerTokens:
    """The tokens of one file."""

    def __init__(self, path: str) -> None:
        """Raises KeyFileRefused: it is missing or wrong, or others may read it."""
        self._path = path
        self._stamp = _stamp(path)
        self._tokens = _read(path)

    def accepts(self, authorization: str) -> bool:
        """Whether this value of the header brings one of them. How long it takes tells nothing of the tokens."""
        self._look()
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode()
        matches = [hmac.compare_digest(given, each) for each in self._tokens]  # with all, whichever matches
        return scheme.lower() == _SCHEME and any(matches)

    def _look(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._tokens = _read(self._path)
        except KeyFileRefused as error:
            log.warning("the tokens of scrapes stay as they were: %s", error)
        else:
            log.info("the tokens of scrapes were read again count=%d", len(self._tokens))


def parse_tokens(text: str, path: str) -> tuple[bytes, ...]:
    """The tokens of a file's text. `path`: for errors. Raises KeyFileRefused, which never shows one."""
    lines = [line.strip() for line in text.splitlines()]
    tokens = [line for line in lines if line and not line.startswith("#")]
    for token in tokens:
        if len(token) < TOKEN_CHARACTERS_MIN or not token.isascii() or not token.isprintable() or " " in token:
            raise KeyFileRefused(path, _HOW)
    if not 1 <= len(tokens) <= TOKENS_MAX:
        raise KeyFileRefused(path, _HOW)
    return tuple(token.encode() for token in tokens)


def _read(path: str) -> tuple[bytes, ...]:
    return parse_tokens(read_guarded(path, forbidden=PRIVATE, bytes_max=FILE_BYTES_MAX, absent=f": {_HOW}"), path)


def _stamp(path: str) -> _Stamp:
    """What changes when the file does; None if it is not there."""
    try:
        status = os.stat(os.path.expanduser(path))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
