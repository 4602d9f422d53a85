"""Where a broker says that it can be reached: a name, or an address."""

from __future__ import annotations

import socket

import pytest

from zenitmq.broker.config import BrokerConfig
from zenitmq.model.errors import ConfigError
from zenitmq.remoting import addresses as module
from zenitmq.remoting.addresses import own_address


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "127.0.0.1:10911"),
        ({"host": "::1"}, "[::1]:10911"),
        ({"advertised_host": "broker-a-1.zenit.example"}, "broker-a-1.zenit.example:10911"),
        ({"advertised_host": "10.1.2.3"}, "10.1.2.3:10911"),
        ({"advertised_host": "fd00::7"}, "[fd00::7]:10911"),
    ],
)
def test_clients_are_told_the_advertised_host_or_else_the_host(settings: dict[str, str], address: str) -> None:
    assert BrokerConfig(**settings).address_at(10911) == address


@pytest.mark.parametrize(
    "host", ["broker a", "broker:10911", "-x", "a..b", "a" * 64, "é", "[::1]", "a." * 130, ":", "fd00::g"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"advertised_host.*a DNS name or an IP address, without a port"):
        BrokerConfig(advertised_host=host)


def _resolves_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [
        (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))
        for address in addresses
    ]

    def getaddrinfo(*_: object, **__: object) -> object:
        if not found:
            raise socket.gaierror(-2, "Name or service not known")
        return found

    monkeypatch.setattr(module.socket, "getaddrinfo", getaddrinfo)


def test_its_own_address_is_what_the_machines_name_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolves_to(monkeypatch, "fd00::7", "127.0.1.1", "172.18.0.4")
    assert own_address() == "172.18.0.4"
    _resolves_to(monkeypatch, "fd00::7%eth0", "127.0.1.1")
    assert own_address() == "fd00::7"


@pytest.mark.parametrize(("addresses", "reason"), [((), "resolves to none"), (("127.0.1.1", "::1"), "to loopback")])
def test_a_machine_that_does_not_know_its_address_says_so(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...], reason: str
) -> None:
    _resolves_to(monkeypatch, *addresses)
    with pytest.raises(ConfigError, match=f"host.*auto.*{reason}"):
        own_address()


@pytest.mark.parametrize("host", ["localhost", "broker-a.zenit.local", "10.0.0.256", "10.0.0.1:10911"])
def test_records_hold_an_address_so_a_name_is_refused_as_host(host: str) -> None:
    with pytest.raises(ConfigError, match=r"host = .*advertised_host"):
        BrokerConfig(host=host)
