"""Stories of drains: a replica hands over, leaves and ends, and nobody waits for it (Detection, R7)."""

from __future__ import annotations

from ..broker import Broker
from ..calm_group import CalmGroup
from ..ledger import Violation
from ..schedule import MS
from .table import story

HANDED_OVER_MS = 600
"""Held, asked, elected, promised, followed, and found by the producers, whose pauses double."""
AT_ONCE_MS = 150


@story("D9", without="draindeaf", falls="I5")
def master_that_drains_is_replaced_before_it_ends() -> None:
    group = CalmGroup()
    old, life = group.master, group.brokers[group.master]
    group.faults.drain(old, ends=True)
    group.run_until(lambda: group.master != old, AT_ONCE_MS)
    group.writes_go_on(HANDED_OVER_MS)
    group.run_until(lambda: not life.alive)
    group.whole()


@story("D10", without="drainturn", falls="I5")
def those_that_drain_do_not_take_turns() -> None:
    group = CalmGroup()
    for name in sorted(group.swarm.names, key=lambda name: name == group.master):
        group.faults.stay_drained(name)
        group.run_ms(AT_ONCE_MS)
    epoch = group.epoch
    group.run_ms(8_000)
    if group.epoch != epoch:
        raise Violation(f"I5: epochs {epoch} to {group.epoch}, and nothing is gained")
    group.writes_go_on(1_000)
    group.whole()


@story("D11", without="draincut", falls="I5")
def nothing_in_flight_is_cut_by_a_drain() -> None:
    group = CalmGroup()
    group.network.weather.delay_us = 20 * MS  # so that there is always something in flight
    group.run_ms(1000)
    broker = group.brokers[group.master]
    cut = _cut_by(broker)
    group.faults.drain(broker.name, ends=True)
    group.run_until(lambda: not broker.alive)
    if cut:
        raise Violation(f"I5: {cut} messages in the log are not acknowledged, and are sent again")
    group.network.weather.delay_us = MS
    group.whole()


@story("D12", without="byeclose", falls="I5")
def no_send_waits_until_a_member_has_left() -> None:
    group = CalmGroup()
    group.zookeeper.delay_ms = 400.0
    slave = min(set("abc") - {group.master})
    life = group.brokers[slave]
    group.faults.drain(slave, ends=True)
    group.run_ms(5)
    group.writes_go_on(2 * AT_ONCE_MS)
    group.run_until(lambda: not life.alive)
    group.whole()


def _cut_by(broker: Broker) -> list[int]:
    """Filled with the ends of those messages that its deposition leaves without an answer."""
    cut: list[int] = []
    deposed = broker.on_deposed

    def on_deposed() -> None:
        cut.extend(end for end, _ in broker.waiting)
        deposed()

    broker.on_deposed = on_deposed  # type: ignore[method-assign]
    return cut
