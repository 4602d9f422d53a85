"""A process that is cut off: the kernel's own rules, in a network namespace that ends with the test. Needs root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenitmq.deploy.drills.faults import partition

SCENE = Path(__file__).with_name("partition_scene.py")


@pytest.mark.skipif(not partition.is_possible(), reason="needs root, ip and iptables")
def test_each_way_of_cutting_off_stops_that_way_only_and_can_be_mended() -> None:
    done = subprocess.run([sys.executable, str(SCENE)], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: facts["hears"] for name, facts in found.items()} == {
        "CUT_IN": {"victim": False, "peer": True},
        "CUT_OUT": {"victim": True, "peer": False},
        "CUT_BOTH": {"victim": False, "peer": False},
    }
    for facts in found.values():  # a connection needs both ways
        assert facts["reaches"] == {"victim": False, "peer": False}
        assert facts["mended"]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives root away")
def test_without_root_it_is_refused_in_a_line() -> None:
    program = (
        "import os; os.setuid(65534)\n"
        "from zenitmq.deploy.drills.faults.partition import check_possible, is_possible\n"
        "assert not is_possible()\n"
        "try: check_possible()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    setup = "import sys; import zenitmq.deploy.drills.faults.partition\n"  # before the directory may no longer be read
    done = subprocess.run(
        [sys.executable, "-c", setup + program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.startswith("InvalidParameter user id"), done.stderr
    assert "sudo" in done.stdout
