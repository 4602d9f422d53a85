"""docs/formats/remoting.md shows the tables of the code; ZENIT_REWRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import zmq

from zenitmq.remoting.commands import REQUESTS, Request
from zenitmq.remoting.lanes import DEFAULT_LANES
from zenitmq.remoting.options import SOCKET_TABLES

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "remoting.md"
MARKED = re.compile(r"(<!-- (requests|lanes|options) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fields_of(cls: type) -> str:
    return ", ".join(field.name for field in dataclasses.fields(cls)) or "(none)"


def rights_of(cls: type[Request]) -> str:
    return ", ".join(map(str, cls.needs)) or "(none)"


def requests() -> list[str]:
    rows = [
        "| code | request | lane | served by | rights | fields | reply | fields of the reply |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for code, cls in sorted(REQUESTS.items()):
        row = f"{code} | {cls.__name__} | {cls.lane.name} | {cls.served_by.value} | {rights_of(cls)}"
        rows.append(f"| {row} | {fields_of(cls)} | {cls.reply.__name__} | {fields_of(cls.reply)} |")
    return rows


def lanes() -> list[str]:
    rows = [
        "| lane | waiting, at most | unanswered, at most | wait for a turn, ms | share of a turn |",
        "|---|---|---|---|---|",
    ]
    for lane, limits in DEFAULT_LANES.items():
        rows.append(
            f"| {lane.name} | {limits.queue_max} | {limits.in_flight_max} | {limits.deadline_ms} | {limits.share} |"
        )
    return rows


def options() -> list[str]:
    rows = ["| socket | option | value | why |", "|---|---|---|---|"]
    for kind, table in SOCKET_TABLES.items():
        rows += [f"| {kind} | {option.name} | {option.value} | {option.reason} |" for option in table]
    return rows


TABLES = {"requests": requests, "lanes": lanes, "options": options}


def test_the_page_shows_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    expected = MARKED.sub(lambda mark: mark[1] + "\n".join(TABLES[mark[2]]()) + "\n" + mark[4], text)
    assert [mark[2] for mark in MARKED.finditer(text)] == list(TABLES)
    if "ZENIT_REWRITE_DOCS" in os.environ:
        PAGE.write_text(expected, encoding="utf-8")
        text = expected
    assert text == expected


def test_options_are_zeromqs_and_given_once() -> None:
    for kind, table in SOCKET_TABLES.items():
        names = [option.name for option in table]
        assert len(set(names)) == len(names), kind
        for option in table:
            assert hasattr(zmq, option.name)
            assert len(option.reason) > 15


def test_no_socket_is_left_to_a_default_that_drops_or_does_not_bound() -> None:
    needed = {
        "ROUTER": {"RCVHWM", "SNDHWM", "MAXMSGSIZE", "ROUTER_MANDATORY", "ROUTER_HANDOVER", "LINGER", "HANDSHAKE_IVL"},
        "DEALER": {"RCVHWM", "SNDHWM", "MAXMSGSIZE", "LINGER", "IMMEDIATE", "RECONNECT_IVL", "CONNECT_TIMEOUT"},
        "PUB": {"SNDHWM", "MAXMSGSIZE", "LINGER"},
        "SUB": {"RCVHWM", "MAXMSGSIZE", "LINGER", "RECONNECT_IVL", "RECONNECT_IVL_MAX"},
        "WAKE": {"SNDHWM", "LINGER"},
    }
    alive = {"HEARTBEAT_IVL", "HEARTBEAT_TIMEOUT", "HEARTBEAT_TTL", "TCP_KEEPALIVE", "IPV6"}
    for kind, table in SOCKET_TABLES.items():
        assert {option.name for option in table} >= needed[kind] | (alive if kind != "WAKE" else set())
