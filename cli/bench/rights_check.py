"""Measures what a rights check costs: `python -m zenitmq.cli.bench.rights_check [--users N] [--rules N] [--rounds N]`.

In this process, without a cluster: a guard as each server has it, whose table has so many users with so many rules each. Prints
JSON: microseconds of CPU a request, the median of all rounds, for a send (a right on its topic) and a pull (rights on its topic
and its group), where the decision is remembered and where it is asked for the first time; and for a send where a rule asks from
where requests come.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from statistics import median
from typing import Any, Final

from ...bench.environment import environment
from ...model.clock import thread_cpu_ns
from ...model.security.access_table import AccessTable
from ...model.security.principals import RULES_MAX, RuleEffect, User
from ...model.security.rule_text import parse_rule
from ...remoting.commands import PullMessages, Request, SendMessages
from ...remoting.security.guard import Guard

CHECKS: Final = 100_000  # of a round
TOPICS: Final = 100  # of which users ask by turns
RULES_MIN: Final = 2
ADDRESS: Final = "10.1.2.3"
_SUBNET: Final = "10.0.0.0/8"


def guard_of(users: int, rules: int, *, asks_address: bool = False) -> Guard:
    """Each user has `rules` rules: one that allows all topics and groups that begin with "o", behind others that do not."""
    networks = (_SUBNET,) if asks_address else ()
    given = [parse_rule(RuleEffect.ALLOW, "pub,sub", f"topic:t{number}") for number in range(rules - 2)]
    given += [parse_rule(RuleEffect.ALLOW, "pub,sub", f"{kind}:o*", networks) for kind in ("topic", "group")]
    named = (User(f"user-{number}", (key_of(number),), rules=tuple(given)) for number in range(users))
    return Guard(AccessTable(named, ()))


def key_of(number: int) -> str:
    """A public key by its form."""
    return f"{number:040d}"


def sends() -> list[Request]:
    """A send to each topic."""
    return [SendMessages(f"orders-{number}", 0, 1) for number in range(TOPICS)]


def pulls() -> list[Request]:
    """A pull from each topic."""
    return [
        PullMessages(
            topic=f"orders-{number}", queue_id=0, queue_offset=0, suspend_ms=0, group="o", max_messages=1, max_bytes=1
        )
        for number in range(TOPICS)
    ]


def remembered_us(guard: Guard, users: int, requests: Sequence[Request], checks: int) -> float:
    """Microseconds a check, of requests that were asked for before; without what the loop around it costs."""
    keys = [key_of(number) for number in range(min(users, 10))]
    asked = list(islice(zip(cycle(keys), cycle(requests), strict=False), checks))
    for key, request in asked[: len(keys) * len(requests)]:
        assert guard.check(key, ADDRESS, request) is None
    return (_spent_ns(guard.check, asked) - _spent_ns(_nothing, asked)) / checks / 1000


def first_us(guard: Guard, users: int, checks: int) -> float:
    """Microseconds a check, each of a topic that nobody has asked about."""
    key = key_of(users - 1)
    asked: list[tuple[str, Request]] = [(key, SendMessages(f"orders-{number}", 0, 1)) for number in range(checks)]
    return _spent_ns(guard.check, asked) / checks / 1000


def measure(users: int, rules: int, rounds: int, checks: int = CHECKS) -> dict[str, Any]:
    """The medians."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        guard, asking = guard_of(users, rules), guard_of(users, rules, asks_address=True)
        for name, value in (
            ("send", remembered_us(guard, users, sends(), checks)),
            ("pull", remembered_us(guard, users, pulls(), checks)),
            ("send_by_address", remembered_us(asking, users, sends(), checks)),
            ("first_send", first_us(guard_of(users, rules), users, max(1, checks // 100))),
        ):
            found.setdefault(name, []).append(value)
    return {
        "users": users,
        "rules": rules,
        "rounds": rounds,
        "us": {name: round(median(values), 3) for name, values in found.items()},
        "environment": environment("."),
    }


def _spent_ns(check: Callable[[str, str, Request], object], asked: Sequence[tuple[str, Request]]) -> int:
    began = thread_cpu_ns()
    for key, request in asked:
        check(key, ADDRESS, request)
    return thread_cpu_ns() - began


def _nothing(_key: str, _address: str, _request: Request) -> None:
    """What a call costs."""


def main() -> None:
    """Reads the arguments, prints JSON."""
    parser = argparse.ArgumentParser(prog="rights_check")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--rules", type=int, default=20, help=f"of each user, {RULES_MIN} to {RULES_MAX}")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.users < 1 or not RULES_MIN <= given.rules <= RULES_MAX or given.rounds < 1:
        parser.error(f"--users and --rounds from 1 on, --rules from {RULES_MIN} to {RULES_MAX}")
    json.dump(measure(given.users, given.rules, given.rounds), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
