"""The model of the rules still holds, and still notices when one of them is gone. Needs g++."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

AS_THEY_STAND = "preset=fixed lease=0 i2=0 r3=0 electdrop=1"
SET_BACK = "N=2 min=1 sync=0 isr0=3 V=2 E=2 maxver=5 pow=0 hello=2 zkback=1"
EVERY_MESSAGE = "a_info=2 a_prop=1 a_ack=1 a_hello=1 a_chunk=1 cap=4 dup=3"

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++: test.sh installs it")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled checker. With -O2 it takes three times as long to compile, and no less to run."""
    program = tmp_path_factory.mktemp("model") / "mc"
    source = Path(__file__).parent / "mc.cpp"
    subprocess.run(["g++", "-O1", "-std=c++17", "-w", "-o", program, source], check=True)
    return program


def result(model: Path, flags: str) -> str:
    """What it says in the end, behind the stories it tells."""
    said = subprocess.run([model, *flags.split()], check=True, capture_output=True, text=True).stdout
    found = re.search(r"^RESULT .*$", said, re.MULTILINE)
    assert found is not None, said
    return said[: found.start()] + found.group()


@pytest.mark.timeout(300)
def test_all_states_of_three_replicas_under_sync(model: Path) -> None:
    said = result(model, f"{AS_THEY_STAND} mode=bfs time=250 N=3 min=2 sync=1 isr0=3 V=1 E=2 maxver=4 pow=1")
    assert "no violation" in said, said
    assert "states=1807165" in said, said


def test_all_states_around_a_change_of_the_flush_mode(model: Path) -> None:
    bounds = "N=2 min=2 sync=0 V=1 E=2 maxver=4 L=1 hello=1 pow=1 bootid=1 modes=1"
    said = result(model, f"{AS_THEY_STAND} mode=bfs time=100 {bounds}")
    assert "no violation" in said, said
    assert "COMPLETE" in said, said


@pytest.mark.timeout(120)
def test_all_states_around_a_zookeeper_that_was_set_back(model: Path) -> None:
    said = result(model, f"{AS_THEY_STAND} mode=bfs time=100 {SET_BACK}")
    assert "no violation" in said, said
    assert "states=120061" in said, said


def test_walks_with_every_message_and_every_fault(model: Path) -> None:
    bounds = "N=3 min=2 sync=0 V=5 E=6 maxver=20 L=6 hello=12 bootid=1"
    faults = "pow=2 kill=1 stop=1 wipe=1"
    walks = "mode=walk walks=4000 steps=300 seed=41 heal=20 time=60"
    said = result(model, f"{AS_THEY_STAND} {walks} {bounds} {EVERY_MESSAGE} {faults}")
    assert "walks=4000" in said, said
    assert "no violation" in said, said


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("removed", "bounds", "invariant"),
    [
        ("mincount=0", "isr0=3 V=1 E=2 maxver=5 pow=0 a_prop=1 cap=1", "I1"),
        ("confmin=0", "isr0=3 V=1 E=2 maxver=4 pow=0", "I3"),
        ("guardmin=0", "isr0=3 V=2 E=2 maxver=4 pow=0", "I6"),
        ("ffmark=0", "isr0=3 V=1 E=2 maxver=4 pow=0 ff=1 bootid=1", "I1"),
        ("modeepoch=0", "N=2 V=1 E=2 maxver=4 L=1 hello=2 pow=1 bootid=1 modes=1", "I1"),
        ("holecut=0", "N=2 sync=1 V=2 E=2 maxver=3 pow=1 hole=1 heal=0", "I3"),
        ("holeunc=0", "sync=0 isr0=3 V=1 E=2 maxver=4 pow=0 hole=1", "I1"),
        ("cleanfl=0", "N=2 min=1 sync=1 V=1 E=3 maxver=5 pow=1 kill=1 stop=1", "I1"),
        ("inlone=0", "N=2 min=1 sync=1 isr0=3 V=2 E=2 maxver=5 pow=0 stop=1 alone=1 hello=2", "I3"),
        ("origin=0", "isr0=3 V=1 E=2 maxver=4 pow=1 fgn=1", "I3"),
        ("r14store=0", "isr0=3 V=1 E=2 maxver=4 pow=0 fhello=1", "I1"),
        ("seen=0", SET_BACK, "I1"),
        ("seenver=0", SET_BACK, "I1"),
        ("seenset=0", SET_BACK, "I1"),
        ("hearfirst=0", SET_BACK, "I1"),
        ("bestrow=0", SET_BACK, "I1"),
        ("forcewait=0", SET_BACK, "I1"),
        ("modecarry=0", "N=2 V=1 E=3 maxver=5 L=1 hello=1 pow=1 kill=1 bootid=1 modes=1", "I1"),
    ],
)
def test_a_rule_that_is_gone_is_missed(model: Path, removed: str, bounds: str, invariant: str) -> None:
    said = result(model, f"{AS_THEY_STAND} mode=bfs time=200 N=3 min=2 {bounds} {removed}")
    assert f"VIOLATION {invariant} " in said, said
