"""Scrapes of a process under test, parsed by prometheus_client's own parser."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

WAIT_S = 15.0
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Scrape:
    """`rows`: (name, labels, value) of each line; `families`: their names as they are declared."""

    rows: tuple[tuple[str, dict[str, str], float], ...]
    families: frozenset[str]

    @staticmethod
    def page(address: str, path: str) -> tuple[int, str]:
        """(status, text) of a page."""
        connection = http.client.HTTPConnection(address, timeout=WAIT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    @classmethod
    def take(cls, address: str, path: str = "/metrics") -> Scrape:
        status, text = cls.page(address, path)
        assert status == 200, text
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Scrape:
        families = frozenset(line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE "))
        rows = tuple(
            (sample.name, dict(sample.labels), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
        return cls(rows, families)

    @classmethod
    def until(cls, address: str, is_so: Callable[[Scrape], bool]) -> Scrape:
        """The first scrape of which that is so: some numbers are found out a little at a time."""
        ends = time.monotonic() + WAIT_S
        while True:
            found = cls.take(address)
            if is_so(found):
                return found
            assert time.monotonic() < ends, found.rows
            time.sleep(PAUSE_S)

    @classmethod
    def when_up(cls, address: str, is_so: Callable[[Scrape], bool]) -> Scrape:
        """The same of a process that only starts."""
        ends = time.monotonic() + WAIT_S
        while True:
            try:
                return cls.until(address, is_so)
            except ConnectionError:
                assert time.monotonic() < ends
                time.sleep(PAUSE_S)

    def values(self, name: str, **labels: str) -> list[float]:
        return [value for one, told, value in self.rows if one == name and labels.items() <= told.items()]

    def value(self, name: str, **labels: str) -> float:
        """The only one, or the sum of several; -1 where there is none."""
        found = self.values(name, **labels)
        return sum(found) if found else -1

    def has(self, **labels: str) -> bool:
        return any(labels.items() <= told.items() for _, told, _ in self.rows)
