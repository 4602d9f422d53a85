"""What the audit topic tells of a broker: changes, refusals, logins, messages read by query. Pure.

An entry is a JSON object: `at_ms`, `kind`, `user`, and what the kind has besides:

    change    `request`, `fields`, `before` (what it was, null if there was nothing), `outcome` ("accepted", or the error)
    refusal   `request`, `what` ("pub on topic:orders"), `address`, `count`: 1 for a minute's first, then how many more
    login     `key` (public), `address`: the first time in an hour that somebody connects with it
    read      `request`, `fields`: messages that were looked up
    dropped   `count`: entries that found no room

A broker that writes them adds `replica`: at which replica it happened.

Of one user at most TOLD_A_MINUTE different refusals, and as many reads, are told in a minute; of the others entries of the
request "(others)" tell how many there were. So nobody drives out what the audit says of him by asking much.

Times are milliseconds: `now_ms` since the epoch.
"""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from contextlib import suppress
from typing import Any, Final

from ...model.errors import InvalidParameter
from ...model.plain_dataclass import dataclass
from ...remoting.commands import Request
from ...remoting.security.guard import Refusal

PENDING_MAX: Final = 1000
ENTRY_CHARACTERS_MAX: Final = 32 << 10  # encoded
REFUSALS_MAX: Final = 1000  # different ones that are counted at a time
TOLD_A_MINUTE: Final = 60
LOGINS_MAX: Final = 10_000  # keys
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
TEXT_MAX: Final = 4096  # characters of a field
ELEMENTS_MAX: Final = 64
OTHERS: Final = "(others)"

Entry = dict[str, Any]


@dataclass(frozen=False, slots=True)
class _Repeated:
    """A refusal that was told at `since_ms`, and how often it came again."""

    since_ms: int
    entry: Entry
    more: int = 0


class AuditLog:
    """Entries that wait to be written, the oldest first. Owned by the loop thread."""

    def __init__(self) -> None:
        self._pending: deque[Entry] = deque()
        self._dropped = 0
        self._refusals: dict[tuple[str, str, str], _Repeated] = {}  # and reads beyond TOLD_A_MINUTE
        self._told: dict[tuple[str, str], tuple[int, int]] = {}  # (kind, user): (since when, how many entries)
        self._logins: dict[str, int] = {}

    # ---- what happens

    def on_change(self, now_ms: int, user: str, request: Request, before: Any, outcome: str) -> None:
        """An administrator asked for a change. `before`: JSON."""
        self._add(
            {
                "at_ms": now_ms,
                "kind": "change",
                "user": user,
                "request": type(request).__name__,
                "fields": fields_of(request),
                "before": _bounded(before),
                "outcome": outcome[:TEXT_MAX],
            }
        )

    def on_read(self, now_ms: int, user: str, request: Request) -> None:
        """Somebody looks messages up."""
        entry: Entry = {"kind": "read", "user": user}
        if self._is_much(now_ms, "read", user):
            self._count(now_ms, (user, OTHERS, "read"), entry | {"request": OTHERS, "fields": {}})
        else:
            self._add({"at_ms": now_ms, **entry, "request": type(request).__name__, "fields": fields_of(request)})

    def on_refused(self, now_ms: int, refusal: Refusal) -> None:
        """The guard refused a request: the first of a minute is told, the others are counted."""
        what = "" if refusal.right is None else f"{refusal.right.action.value} on {refusal.right.resource.value}"
        if refusal.name:
            what = f"{what}:{refusal.name[:256]}"
        kind = refusal.user, refusal.request, what
        if kind not in self._refusals and self._is_much(now_ms, "refusal", refusal.user):
            kind = refusal.user, OTHERS, ""
        entry = {"kind": "refusal", "user": kind[0], "request": kind[1], "what": kind[2], "address": refusal.address}
        self._count(now_ms, kind, entry)

    def _is_much(self, now_ms: int, kind: str, user: str) -> bool:
        """Counts one more of this kind; whether this user had as many as are told in a minute."""
        since_ms, count = self._told.get((kind, user), (now_ms, 0))
        if not _is_within(since_ms, now_ms, MINUTE_MS):
            since_ms, count = now_ms, 0
        self._told[kind, user] = since_ms, count + 1
        return count >= TOLD_A_MINUTE

    def _count(self, now_ms: int, kind: tuple[str, str, str], entry: Entry) -> None:
        """Tells the first of a minute, and counts the others."""
        if kind not in self._refusals and len(self._refusals) >= REFUSALS_MAX:
            kind = OTHERS, OTHERS, entry["kind"]
            entry = entry | {"user": OTHERS, "request": OTHERS}
            if "what" in entry:
                entry["what"] = ""
        known = self._refusals.get(kind)
        if known is not None and _is_within(known.since_ms, now_ms, MINUTE_MS):
            known.more += 1
            return
        if known is not None:
            self._tell_repeated(known)
        self._refusals[kind] = _Repeated(now_ms, entry)
        self._add({"at_ms": now_ms, **entry, "count": 1})

    def on_login(self, now_ms: int, user: str, key: str, address: str) -> None:
        """Somebody has connected with a key."""
        if _is_within(self._logins.get(key, -HOUR_MS), now_ms, HOUR_MS):
            return
        if len(self._logins) >= LOGINS_MAX:
            self._logins = {each: at for each, at in self._logins.items() if _is_within(at, now_ms, HOUR_MS)}
        if len(self._logins) < LOGINS_MAX:
            self._logins[key] = now_ms
        self._add({"at_ms": now_ms, "kind": "login", "user": user, "key": key, "address": address})

    def on_tick(self, now_ms: int) -> None:
        """Tells the refusals of minutes that are over."""
        for kind, repeated in list(self._refusals.items()):
            if not _is_within(repeated.since_ms, now_ms, MINUTE_MS):
                self._tell_repeated(repeated)
                del self._refusals[kind]
        self._told = {each: told for each, told in self._told.items() if _is_within(told[0], now_ms, MINUTE_MS)}

    def on_told(self, entries: list[Entry]) -> bool:
        """Another replica noted these; False if there is no room for all of them."""
        if len(self._pending) + len(entries) > PENDING_MAX:
            return False
        self._pending.extend(entries)
        return True

    # ---- what is to be written

    def __len__(self) -> int:
        return len(self._pending) + bool(self._dropped)

    def take(self, count_max: int) -> list[Entry]:
        """The oldest entries, which are now written by the caller."""
        taken = [self._pending.popleft() for _ in range(min(count_max, len(self._pending)))]
        if self._dropped and len(taken) < count_max:
            taken.append({"kind": "dropped", "user": "", "count": self._dropped})
            self._dropped = 0
        return taken

    def give_back(self, entries: list[Entry]) -> None:
        """They could not be written now."""
        for entry in reversed(entries):
            if entry["kind"] == "dropped":
                self._dropped += entry["count"]
            else:
                self._pending.appendleft(entry)

    def _tell_repeated(self, repeated: _Repeated) -> None:
        if repeated.more:
            self._add({"at_ms": repeated.since_ms, **repeated.entry, "count": repeated.more})

    def _add(self, entry: Entry) -> None:
        if len(self._pending) >= PENDING_MAX:
            self._dropped += 1
        else:
            self._pending.append(entry)


def _is_within(since_ms: int, now_ms: int, span_ms: int) -> bool:
    """Whether the span since then lasts. A clock that was set back ends it: otherwise nothing would be told until it is there
    again."""
    return 0 <= now_ms - since_ms < span_ms


def encode_entry(entry: Entry) -> str:
    """As JSON. If it is very long, what was asked and what it was before are only measured."""
    text = _encoded(entry)
    if len(text) > ENTRY_CHARACTERS_MAX:
        cut = {name: f"({len(_encoded(entry[name]))} characters)" for name in ("fields", "before") if entry.get(name)}
        text = _encoded(entry | cut)
    return text


def decode_entry(text: str) -> Entry:
    """An entry of another replica. Raises InvalidParameter."""
    entry: Any = None
    if len(text) <= ENTRY_CHARACTERS_MAX:
        with suppress(ValueError, RecursionError):
            entry = json.loads(text)
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str) or type(entry.get("count", 0)) is not int:
        raise InvalidParameter(
            "entries", ascii(text[:80]), f"JSON objects with a kind, {ENTRY_CHARACTERS_MAX} characters"
        )
    return entry


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def fields_of(request: Request) -> dict[str, Any]:
    """The fields of a request as JSON: long texts cut, bytes only counted."""
    return {
        field.name: _bounded(getattr(request, field.name))
        for field in dataclasses.fields(request)  # type: ignore[arg-type]  # each request class is a dataclass
    }


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}... ({len(value)} characters)"
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, (tuple, list)):
        told = [_bounded(each) for each in value[:ELEMENTS_MAX]]
        return told if len(value) <= ELEMENTS_MAX else [*told, f"... ({len(value)} in all)"]
    if isinstance(value, dict):
        return {str(name): _bounded(each) for name, each in list(value.items())[:ELEMENTS_MAX]}
    return value
