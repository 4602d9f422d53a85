"""Masters and name servers come to know the same users, whatever is lost, late or repeated, and however clocks go."""

from __future__ import annotations

from random import Random

import pytest

from zenitmq.model.security import access_rows
from zenitmq.model.security.access_rows import WHICHEVER, AccessRows, deletion, parse_rows
from zenitmq.model.security.principals import User, UserKind
from zenitmq.model.security.row_codec import RowKind, SecurityRow, is_later, row_of
from zenitmq.remoting.commands import ExchangeReply, ExchangeSecurity
from zenitmq.remoting.security.row_exchange import RowExchange, answer

NOW_MS = 1_700_000_000_000
NAMES = [f"u{number}" for number in range(40)]


class World:
    """Three masters, two name servers, and messages between them in any order."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.masters = [AccessRows() for _ in range(3)]
        self.name_servers = [AccessRows() for _ in range(2)]
        self.skews_ms = [self.draw.choice((0, 0, -3_600_000, 7 * 86_400_000)) for _ in self.masters]
        self.links = {(m, n): RowExchange(self.masters[m]) for m in range(3) for n in range(2)}
        self.requests: list[tuple[int, int, ExchangeSecurity]] = []
        self.replies: list[tuple[int, int, ExchangeReply]] = []
        self.latest: dict[str, SecurityRow] = {}

    def change(self) -> None:
        """Somebody makes, changes or deletes a user at one of the masters."""
        index = self.draw.randrange(3)
        rows, name = self.masters[index], self.draw.choice(NAMES)
        known = rows.row(f"user/{name}")
        kind = self.draw.choice((UserKind.NORMAL, UserKind.SUPER))
        row = row_of(User(name, (), kind, disabled=self.draw.random() < 0.5))
        if known is not None and known.value is not None and self.draw.random() < 0.3:
            row = deletion(RowKind.USER, name)
        now_ms = NOW_MS + self.skews_ms[index] + self.draw.randrange(100)
        row = rows.changed(row, expected_version=WHICHEVER, now_ms=now_ms)
        rows.merge([row])
        if is_later(row, self.latest.get(name)):
            self.latest[name] = row

    def ask(self, master: int, name_server: int) -> None:
        self.requests.append((master, name_server, self.links[master, name_server].request()))

    def deliver_request(self, index: int) -> None:
        master, name_server, request = self.requests[index]
        rows = self.name_servers[name_server]
        rows.merge(rows.later(parse_rows(request.rows)[0], NOW_MS))
        self.replies.append((master, name_server, answer(rows, request)))

    def deliver_reply(self, index: int) -> None:
        master, name_server, reply = self.replies[index]
        later, refused = self.links[master, name_server].on_reply(reply, NOW_MS)
        assert not refused
        self.masters[master].merge(later)

    def step(self) -> None:
        what = self.draw.randrange(10)
        if what < 3:
            self.change()
        elif what < 6:
            self.ask(self.draw.randrange(3), self.draw.randrange(2))
        elif what < 8 and self.requests:
            index = self.draw.randrange(len(self.requests))
            self.deliver_request(index)
            if self.draw.random() < 0.8:  # else it comes twice
                del self.requests[index]
        elif what < 9 and self.replies:
            index = self.draw.randrange(len(self.replies))
            self.deliver_reply(index)
            if self.draw.random() < 0.8:
                del self.replies[index]
        elif self.draw.random() < 0.2:  # lost
            self.requests.clear()
            self.replies.clear()
        elif self.draw.random() < 0.1:
            self.name_servers[self.draw.randrange(2)] = AccessRows()  # it was restarted

    def heal(self, rounds: int) -> None:
        self.requests.clear()
        self.replies.clear()
        for _ in range(rounds):
            for link in self.links:
                for _ in range(2):
                    self.ask(*link)
                    self.deliver_request(-1)
                    self.deliver_reply(-1)


@pytest.mark.parametrize("seed", range(60))
def test_all_servers_come_to_know_the_last_change_of_each(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(access_rows, "PAGE_CHARACTERS_MAX", 400)  # some four rows a message
    world = World(seed)
    for _ in range(300):
        world.step()
    world.heal(20 if seed % 2 else 2)
    servers = [*world.masters, *world.name_servers]
    assert len({server.digests() for server in servers}) == 1, seed
    for server in servers:
        assert {name: server.row(f"user/{name}") for name in world.latest} == world.latest, seed
