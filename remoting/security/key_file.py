"""The file that holds a key pair, and where its owner learns whom to trust: parsed, made, and read only if nobody else can.

    # key of user "billing"; whoever has this file is that user
    user = "billing"
    public = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
    secret = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"

    [servers]
    "127.0.0.1:9876" = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
    "127.0.0.2:9876" = ["<its new key>", "<the old one>"]    # while it is changed

Keys are CURVE keys as Z85 text of 40 characters (ZeroMQ RFC 26 and 32). `servers`: the public keys of the name servers, which
tell those of all other servers.
"""

from __future__ import annotations

import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from ...model.errors import InvalidParameter, KeyFileRefused
from ...model.plain_dataclass import dataclass
from ...model.security.guarded_file import PRIVATE, read_guarded
from ...model.security.principals import KEYS_MAX, check_public_key

FILE_BYTES_MAX: Final = 64 * 1024
SERVERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`secret` is never shown: not in a repr, a log or an error."""

    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """What a key file says. `servers`: {"host:port": its public keys, the newest first}."""

    user: str
    pair: KeyPair
    servers: Mapping[str, tuple[str, ...]]


def parse_key_file(text: str, path: str) -> KeyFile:
    """The content of a key file. `path`: for errors. Raises KeyFileRefused."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise KeyFileRefused(path, f"it is no key file: {str(error)[:120]}") from None
    unknown = sorted(set(document) - {"user", "public", "secret", "servers"})
    if unknown:
        raise KeyFileRefused(path, f"unknown entry {unknown[0][:40]!r}; it has user, public, secret and [servers]")
    servers = document.get("servers", {})
    if not isinstance(servers, dict) or len(servers) > SERVERS_MAX:
        raise KeyFileRefused(
            path, f'[servers] is no table of "host:port" = "public key" with at most {SERVERS_MAX} rows'
        )
    pair = KeyPair(_key(document, "public", path), _key(document, "secret", path))
    return KeyFile(_text(document, "user", path), pair, {at: _keys(servers, at, path) for at in servers})


def key_file_text(key: KeyFile) -> str:
    """The text of a key file; `parse_key_file` gives the same back."""
    lines = [
        f'# key of user "{key.user}"; whoever has this file is that user',
        f'user = "{key.user}"',
        f'public = "{key.pair.public}"',
        f'secret = "{key.pair.secret}"',
        "",
        "[servers]",
        *(f'"{address}" = {_listed(keys)}' for address, keys in key.servers.items()),
    ]
    return "\n".join(lines) + "\n"


def read_key_file(path: str) -> KeyFile:
    """The content of the file. Raises KeyFileRefused if it is missing or wrong, if its group or others may read it, or if it
    is another account's than root's or one's own."""
    return parse_key_file(_read_own(path, absent="; `zenit key new` makes one"), path)


def read_secret(path: str) -> str:
    """The one line of a file with a login, "user:password". Raises KeyFileRefused as `read_key_file` does."""
    text = _read_own(path, absent="; `zenit key cluster` and `zenit config machines` make one").strip()
    user, separator, password = text.partition(":")
    if not (user and separator and password) or not text.isprintable():
        raise KeyFileRefused(path, "it is not one line with USER:PASSWORD")
    return text


def _read_own(path: str, *, absent: str) -> str:
    return read_guarded(path, forbidden=PRIVATE, bytes_max=FILE_BYTES_MAX, absent=absent)


def write_key_file(path: str, key: KeyFile, *, replace: bool = False) -> None:
    """Writes the file with mode 600, whole or not at all. Raises KeyFileRefused if it exists and is not to be replaced,
    or cannot be written."""
    remedy = f"move it away, or choose another name; to grant the key in it: zenit user create {key.user} --key PUBLIC"
    write_private(path, key_file_text(key), remedy="" if replace else remedy)


def write_private(path: str, text: str, *, remedy: str) -> None:
    """The same with any text. `remedy`: what to do about a file that is there, "" = replace it."""
    path = os.path.expanduser(path)
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"  # others cannot guess it, and lay a file or link there beforehand
    try:
        if remedy and os.path.exists(path):
            raise KeyFileRefused(path, f"it exists already, and whoever uses it would be locked out: {remedy}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise KeyFileRefused(path, f"it cannot be written ({error.strerror})") from None


def _text(document: Mapping[str, Any], name: str, path: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value or '"' in value or not value.isprintable():
        raise KeyFileRefused(path, f"it has no {name}; `zenit key new` makes a whole one")
    return value


def _keys(servers: Mapping[str, Any], address: str, path: str) -> tuple[str, ...]:
    given = servers[address] if isinstance(servers[address], list) else [servers[address]]
    if not 1 <= len(given) <= KEYS_MAX:
        raise KeyFileRefused(
            path, f"{address[:64]!r} has {len(given)} keys: a server has one, or two while it is changed"
        )
    return tuple(_key({address: each}, address, path) for each in given)


def _listed(keys: tuple[str, ...]) -> str:
    """In TOML."""
    quoted = [f'"{each}"' for each in keys]
    return quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"


def _key(document: Mapping[str, Any], name: str, path: str) -> str:
    try:
        return check_public_key(document.get(name))  # type: ignore[arg-type]  # what is no text is refused
    except InvalidParameter:
        if name not in document:
            raise KeyFileRefused(path, f"it has no {name}; `zenit key new` makes a whole one") from None
        raise KeyFileRefused(path, f"{name[:64]!r} is no key: 40 characters of Z85") from None
