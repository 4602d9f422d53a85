"""What one machine may cost brokers by wrong signatures."""

from __future__ import annotations

import pytest

from zenitmq.model.errors import BrokerBusy
from zenitmq.proxy import wrong_signatures
from zenitmq.proxy.wrong_signatures import SIGNED_MS, TOKEN_MS, TOKENS, WrongSignatures, machine_of

HERE, THERE = "10.1.1.1", "10.1.1.2"


def asked(wrong: WrongSignatures, now_ms: int, *, machine: str = HERE, access_key: str = "shop", count: int = 1) -> int:
    """How many wrong ones are asked about."""
    done = 0
    for _ in range(count):
        try:
            wrong.check(machine, access_key, now_ms)
        except BrokerBusy:
            continue
        wrong.on_wrong(machine, now_ms)
        done += 1
    return done


def test_a_machine_has_so_many_and_then_one_in_a_while() -> None:
    wrong = WrongSignatures()
    assert asked(wrong, 0, count=TOKENS + 50) == TOKENS
    assert asked(wrong, TOKEN_MS - 1) == 0
    assert asked(wrong, TOKEN_MS, count=2) == 1
    assert asked(wrong, 5 * TOKEN_MS, count=9) == 4
    assert asked(wrong, 5 * TOKEN_MS, machine=THERE) == 1
    later_ms = 10 * TOKENS * TOKEN_MS
    assert asked(wrong, later_ms, count=TOKENS + 50) == TOKENS


def test_who_signed_rightly_there_is_asked_about_whatever_its_neighbours_do() -> None:
    wrong = WrongSignatures()
    wrong.on_right(HERE, "bank", 0)
    assert asked(wrong, 0, count=TOKENS) == TOKENS
    wrong.check(HERE, "bank", 0)
    wrong.check(HERE, "bank", 1)
    for machine, access_key in ((HERE, "other"), (HERE, "shop")):
        with pytest.raises(BrokerBusy, match="too many wrong signatures came from") as refused:
            wrong.check(machine, access_key, 1)
        assert 1 <= refused.value.retry_after_ms <= TOKEN_MS
    assert asked(wrong, SIGNED_MS, count=TOKENS) == TOKENS
    with pytest.raises(BrokerBusy):
        wrong.check(HERE, "bank", SIGNED_MS)


def test_what_is_remembered_is_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_signatures, "MACHINES_MAX", 5)
    monkeypatch.setattr(wrong_signatures, "SIGNERS_MAX", 7)
    wrong = WrongSignatures()
    for number in range(20):
        wrong.on_wrong(str(number), 0)
        wrong.on_right(str(number), "shop", 0)
    assert len(wrong) == 12
    wrong.drop_old(TOKEN_MS)
    assert len(wrong) == 7
    wrong.drop_old(SIGNED_MS)
    assert len(wrong) == 0


@pytest.mark.parametrize(
    ("address", "machine"),
    [
        ("10.1.1.1:4711", "10.1.1.1"),
        ("10.1.1.1", "10.1.1.1"),
        ("[2001:db8:0:7::1]:4711", "2001:db8:0:7::"),
        ("2001:0DB8:0:7:1:2:3:4", "2001:db8:0:7::"),
        ("::1", "0:0:0:0::"),
        ("fe80::", "fe80:0:0:0::"),
        ("unix:", "unix"),
        ("", ""),
    ],
)
def test_a_machine_is_known_by_its_address(address: str, machine: str) -> None:
    assert machine_of(address) == machine
