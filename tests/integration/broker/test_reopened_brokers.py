"""A broker that opens its store anew in the same process has let go of what it was before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(60)

OPENINGS = 3
SCRIPT = """
import json, sys, weakref
from zenitmq.broker import service
from zenitmq.broker.config import BrokerConfig
from zenitmq.store.config import StoreConfig

openings, former, alive = int(sys.argv[2]), [], []

class Reopening(service.Broker):
    def __enter__(self):
        alive.append(sum(one() is not None for one in former))
        super().__enter__()
        former.extend(map(weakref.ref, (self, self._loop, self._store)))
        return self

    def run(self):
        if len(alive) < openings:
            self.on_reopen_needed()
        else:
            self.stop()
        return super().run()

service.Broker = Reopening
store = StoreConfig(segment_bytes=1 << 20, index_slots=100, index_entries=200, preallocate_segments=0)
status = service.run(BrokerConfig(store_dir=sys.argv[1], port=0, namesrv=("127.0.0.1:1",), store=store))
print(json.dumps([status, alive]))
"""


def test_a_former_broker_is_gone_before_the_next_one_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "store"), str(OPENINGS)],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, [0] * OPENINGS]
