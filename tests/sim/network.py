"""A network between named machines that drops, delays, reorders, doubles and cuts, one way too. Chance is the schedule's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .schedule import MS, Host, Schedule


class Network(Protocol):
    """How a message gets from one machine to a process on another."""

    def send(self, src: str, dst: str, host: Host, deliver: Callable[[], None], what: object) -> None:
        """`deliver` runs on `host`, at `dst`, sooner or later, once, twice or never. `what`: for people."""

    def is_cut(self, src: str, dst: str) -> bool:
        """Nothing gets through that way."""


@dataclass(slots=True)
class Weather:
    """Rates of the whole network. `reordered`: messages that overtake; `doubled` ones arrive later once more."""

    lost: float = 0.0
    doubled: float = 0.0
    reordered: float = 0.0
    delay_us: int = 300
    late: float = 0.0  # messages that take a hundred times as long


class SimulatedNetwork:
    """`cuts`: pairs (source, destination). Where nothing is reordered, a pair of machines is one ordered stream."""

    def __init__(self, schedule: Schedule, weather: Weather) -> None:
        self.weather = weather
        self.cuts: set[tuple[str, str]] = set()
        self._schedule = schedule
        self._arrived_us: dict[tuple[str, str], int] = {}

    def is_cut(self, src: str, dst: str) -> bool:
        """Nothing gets through that way."""
        return (src, dst) in self.cuts

    def send(self, src: str, dst: str, host: Host, deliver: Callable[[], None], what: object) -> None:
        """Sends it on its way."""
        weather, schedule = self.weather, self._schedule
        rng = schedule.rng
        if self.cuts and (src, dst) in self.cuts:
            return
        if weather.lost and rng.random() < weather.lost:
            return
        delay_us = weather.delay_us // 2 + int(rng.random() * weather.delay_us)
        if weather.late and rng.random() < weather.late:
            delay_us *= 100
        due_us = schedule.now_us + delay_us
        if not (weather.reordered and rng.random() < weather.reordered):
            due_us = max(due_us, self._arrived_us.get((src, dst), 0) + 1)
            self._arrived_us[src, dst] = due_us
        schedule.after_us(due_us - schedule.now_us, deliver, host)
        if weather.doubled and rng.random() < weather.doubled:
            again_us = due_us - schedule.now_us + int(rng.random() ** 3 * 2000 * MS)
            schedule.after_us(again_us, deliver, host)

    def heal(self) -> None:
        """No more faults; what is under way still arrives."""
        self.cuts.clear()
        self.weather = Weather()
