"""Makes a broker's disk hang, or appear full, while the broker runs (see `disk_faults.c`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum

from ....model.errors import InvalidParameter
from ...cluster_record import ProcessRecord
from .preloaded import compile_library


class DiskFault(Enum):
    """The disk's fault; the value is the flag's name."""

    HANGS = "hang"  # no fdatasync returns
    IS_FULL = "full"  # no file can be allocated


@dataclass(frozen=True, slots=True)
class DiskFaults:
    """Created by `prepare`. `prefix`: the beginning of the paths of all stores, without symbolic links."""

    prefix: str
    flags: str
    library: str

    def environment(self) -> dict[str, str]:
        """The environment for a broker whose disk can fail."""
        return {"LD_PRELOAD": self.library, "ZENIT_FAULT_PREFIX": self.prefix, "ZENIT_FAULT_DIR": self.flags}

    @contextmanager
    def begun(self, fault: DiskFault, brokers: Sequence[ProcessRecord]) -> Iterator[None]:
        """While inside, the disks of these brokers have the fault."""
        flags = [f"{self._flag(broker)}.{fault.value}" for broker in brokers]
        try:
            for flag in flags:
                with open(flag, "w", encoding="ascii"):
                    pass
            yield
        finally:
            for flag in flags:
                with suppress(FileNotFoundError):
                    os.unlink(flag)

    def _flag(self, broker: ProcessRecord) -> str:
        store = os.path.realpath(broker.store_dir or "")
        if not store.startswith(self.prefix):
            raise InvalidParameter("broker", broker.name, f"one whose store begins with {self.prefix}")
        return os.path.join(self.flags, store.removeprefix(self.prefix).partition("/")[0])


def prepare(prefix: str, folder: str) -> DiskFaults:
    """Compiles the library into `folder`. Raises what `compile_library` raises."""
    above, name = os.path.split(os.path.abspath(prefix))
    os.makedirs(above, exist_ok=True)
    library = compile_library("disk_faults.c", folder)
    return DiskFaults(os.path.join(os.path.realpath(above), name), os.path.realpath(folder), library)
