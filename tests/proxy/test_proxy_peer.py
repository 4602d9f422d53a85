"""What proxy_peer.py makes of its rounds; the rounds themselves take minutes: docs/benchmarks.md."""

from __future__ import annotations

from typing import cast

import proxy_peer
from proxy_peer import PROXY, RELAYED, ROCKETMQ, Load, Round, compare, kinds, run_turns, table


def a_round(rate: float, p50_us: float) -> Round:
    return {"messages_per_second": rate, "p50_us": p50_us, "p99_us": 9 * p50_us, "failed": 0}


ROUNDS = {
    PROXY: [a_round(40_000, 300), a_round(10_000, 900), a_round(50_000, 360)],
    ROCKETMQ: [a_round(80_000, 200), a_round(160_000, 150), a_round(70_000, 240)],
    RELAYED: [a_round(70_000, 300), a_round(70_000, 300), a_round(70_000, 300)],
}


def test_medians_are_compared() -> None:
    assert compare(ROUNDS) == {"messages_per_second": 0.5, "p50_us": 1.8, "relayed_p50_us": 1.5}


def test_a_peer_that_took_nothing_is_no_division_by_zero() -> None:
    shares = compare({**ROUNDS, ROCKETMQ: [a_round(0, 0)]})
    assert shares == {"messages_per_second": 0.0, "p50_us": 0.0, "relayed_p50_us": 0.0}


def test_the_table_has_each_round() -> None:
    assert table({"single sends": ROUNDS}).splitlines()[2] == (
        "| single sends | 40.0, 10.0, 50.0 k/s | 80.0, 160.0, 70.0 k/s | 50% | 300, 900, 360 us | 200, 150, 240 us | 1.80 x |"
        " 300, 300, 300 us: 1.50 x |"
    )


def test_both_take_turns_and_who_begins_changes() -> None:
    asked: list[tuple[str, int, int]] = []

    class Told:
        def __init__(self, peer: str) -> None:
            self.peer = peer

        def round(self, *, batch: int, threads: int, seconds: float) -> Round:
            asked.append((self.peer, batch, threads))
            return a_round(len(asked), seconds)

    loads = {peer: cast(Load, Told(peer)) for peer in (PROXY, ROCKETMQ)}
    found = run_turns(loads, threads=1, seconds=5.0, rounds=2)
    order = [peer for peer, batch, _ in asked if batch == 1]
    assert order[2:] in ([PROXY, ROCKETMQ, ROCKETMQ, PROXY], [ROCKETMQ, PROXY, PROXY, ROCKETMQ])
    assert list(found) == list(kinds(1)) == [f"batches of {proxy_peer.BATCH}, threads: 1", "single sends"]
    assert all(len(rounds) == 2 for peers in found.values() for rounds in peers.values())
