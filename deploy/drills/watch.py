"""Checks during a drill, about once a second, that epochs and confirm offsets never decrease. Pure.

- A group's epoch never decreases.
- Within an epoch its master's confirm offset never decreases, and only one replica claims to be its master.
- While ZooKeeper has lost the groups, its epochs are ignored, and no replica becomes master of a later one.
- At the end nothing is quarantined at an in-sync replica.

A sample is the `groups` of `zenit status --json`; a replica without an answer is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

VIOLATIONS_MAX: Final = 20


@dataclass(slots=True)
class Watch:
    """`violations`: as text, the first few. `samples`: the number of samples.

    `lost_at`: for the sampling thread, which passes it to `on_sample`. A drill replaces it, as a whole, from another
    thread.
    """

    violations: list[str] = field(default_factory=list)
    samples: int = 0
    lost_at: Mapping[str, int] | None = None
    _epochs: dict[str, int] = field(default_factory=dict)
    _terms: dict[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict
    )  # (group, epoch) -> (master, its confirm offset)

    def on_sample(self, groups: Iterable[Mapping[str, Any]], *, lost_at: Mapping[str, int] | None = None) -> None:
        """Checks the present groups. `lost_at`: ZooKeeper lost them at these epochs; {}: they are being restored."""
        self.samples += 1
        for group in groups:
            name, epoch = str(group["broker_name"]), group["epoch"]
            if epoch is not None and lost_at is None:
                self._on_epoch(name, epoch)
            for replica in group["replicas"]:
                if replica["role"] == "master" and None not in (replica["epoch"], replica["confirm_offset"]):
                    if lost_at is not None and replica["epoch"] > lost_at.get(name, replica["epoch"]):
                        self.tell(
                            f"{name}: {replica['name']} leads epoch {replica['epoch']}, elected by nobody who may"
                        )
                    self._on_master(name, replica["epoch"], replica["name"], replica["confirm_offset"])

    def _on_epoch(self, group: str, epoch: int) -> None:
        before = self._epochs.get(group, epoch)
        if epoch < before:
            self.tell(f"{group}: epoch {epoch} after {before}")
        self._epochs[group] = max(epoch, before)

    def _on_master(self, group: str, epoch: int, name: str, confirm: int) -> None:
        master, before = self._terms.get((group, epoch), (name, confirm))
        if master != name:
            self.tell(f"{group}: {name} and {master} both lead epoch {epoch}")
        if master == name and confirm < before:
            self.tell(f"{group}: {name} confirmed {confirm} in epoch {epoch}, after {before}")
        self._terms[group, epoch] = (master, max(confirm, before))

    def tell(self, text: str) -> None:
        """Adds a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(text)


def quarantined(in_sync: Sequence[str], stores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In-sync replicas with quarantined ranges, as text. `stores`: the store's statistics of each answering replica."""
    return [
        f"{name}: {store['quarantined_bytes']} bytes in {store['quarantined_ranges']} places are quarantined"
        for name, store in sorted(stores.items())
        if name in in_sync and store["quarantined_ranges"]
    ]
