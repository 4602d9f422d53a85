"""Cuts one broker off from all others on this machine: a network namespace of the drill's own, and iptables in it.

The drill's process enters a new network namespace before it starts anything (`enter_own_network`). Everything it starts is
in it too, and it ends with the last of them, so no rule outlives a drill and none affects the machine. Inside, all share
the loopback, and the rules distinguish processes by group id: each broker is started with its own (`started_as`). A packet
is *from* the broker if its group owns the socket or if it leaves one of its ports. It is *to* the broker if it goes to one
of its ports, or comes from another process on a connection of the broker, which connection tracking remembers by a mark.
Packets are dropped without an answer, as in a broken network.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ....model.errors import InvalidParameter, RequirementMissing, SystemFault
from ...cluster_record import ServerRecord
from ..catalogue import Deed

CLONE_NEWNET: Final = 0x40000000
GROUP_ID_FIRST: Final = 20_911
CHAIN: Final = "ZENIT_DRILL"
COMMAND_TIMEOUT_S: Final = 20
TOOLS: Final = ("ip", "iptables")
REMEDY: Final = "install them: sudo apt-get install -y iproute2 iptables"
ROOT_NEEDED: Final = "root: rules of the network are set; run it by sudo"


def check_possible() -> None:
    """Raises InvalidParameter without root, RequirementMissing without the tools."""
    if os.geteuid() != 0:
        raise InvalidParameter("user id", os.geteuid(), ROOT_NEEDED)
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise RequirementMissing(f"{' and '.join(missing)} for a partition", REMEDY)


def is_possible() -> bool:
    """Whether `check_possible` raises nothing."""
    return os.geteuid() == 0 and all(shutil.which(tool) is not None for tool in TOOLS)


def enter_own_network() -> None:
    """Moves this thread, and what it starts from now on, into a new network that has only a loopback.

    Call it before the process has opened a socket. Raises what `check_possible` raises, SystemFault.
    """
    check_possible()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise SystemFault(f"cannot make a network namespace: {os.strerror(ctypes.get_errno())}")
    _run("ip", "link", "set", "lo", "up")


def set_up(count: int) -> None:
    """Adds rules that mark the connections of `count` groups, and an empty chain for rules that drop packets."""
    for number in range(count):
        owner = ("-m", "owner", "--gid-owner", str(GROUP_ID_FIRST + number))
        _iptables("-t", "mangle", "-A", "OUTPUT", *owner, "-j", "CONNMARK", "--or-mark", str(1 << number))
    _iptables("-N", CHAIN)
    _iptables("-A", "OUTPUT", "-j", CHAIN)


@contextmanager
def started_as(brokers: Sequence[ServerRecord], name: str) -> Iterator[None]:
    """While inside, started processes get the group id of the broker `name`."""
    number = [broker.name for broker in brokers].index(name)
    with group_id(GROUP_ID_FIRST + number):
        yield


def cut_off(brokers: Sequence[ServerRecord], broker: ServerRecord, deed: Deed) -> None:
    """Drops what goes to the broker (CUT_IN), comes from it (CUT_OUT), or both, until `mend`; CUT_LINKS: only what passes
    between it and the other replicas' replication ports. `brokers`: all of them, in the order of `set_up`.
    """
    number = [other.name for other in brokers].index(broker.name)
    if deed is Deed.CUT_LINKS:
        group = [other for other in brokers if other.group == broker.group and other.name != broker.name]
        others = [ports_of(other)[1] for other in group]
        _drop(link_rules(GROUP_ID_FIRST + number, ports_of(broker)[1], others))
        return
    drop(deed, GROUP_ID_FIRST + number, 1 << number, ports_of(broker))


def drop(deed: Deed, its_group: int, mark: int, ports: Sequence[int]) -> None:
    """The same for any process with that group id, mark and ports."""
    _drop(rules(deed, its_group, mark, ports))


def _drop(matches: Sequence[tuple[str, ...]]) -> None:
    for rule in matches:
        _iptables("-A", CHAIN, *rule, "-j", "DROP")


def mend() -> None:
    """Removes the rules that drop packets."""
    _iptables("-F", CHAIN)


def ports_of(broker: ServerRecord) -> tuple[int, int]:
    """Its ports for clients and for other replicas: replication uses the port after the clients'."""
    port = int(broker.address.rpartition(":")[2])
    return port, port + 1


def rules(deed: Deed, its_group: int, mark: int, ports: Sequence[int]) -> list[tuple[str, ...]]:
    """The packets to drop, as matches of iptables, in the chain for packets sent on this machine."""
    listed = ",".join(map(str, ports))
    tcp = ("-p", "tcp", "-m", "multiport")
    out = [("-m", "owner", "--gid-owner", str(its_group)), (*tcp, "--sports", listed)]
    others = ("-m", "owner", "!", "--gid-owner", str(its_group))
    into = [(*tcp, "--dports", listed), ("-m", "connmark", "--mark", f"{mark}/{mark}", *others)]
    return [*(into if deed is not Deed.CUT_OUT else ()), *(out if deed is not Deed.CUT_IN else ())]


def link_rules(its_group: int, its_port: int, other_ports: Sequence[int]) -> list[tuple[str, ...]]:
    """The same for the links between replicas: to the broker's slaves, and to its master."""
    its, theirs = str(its_port), ",".join(map(str, other_ports))
    return [
        ("-p", "tcp", "--dport", its),
        ("-p", "tcp", "--sport", its),
        ("-p", "tcp", "-m", "multiport", "--dports", theirs, "-m", "owner", "--gid-owner", str(its_group)),
    ]


@contextmanager
def group_id(number: int) -> Iterator[None]:
    """While inside, this process, and what it starts, has that group id; the saved one restores the old one."""
    before = os.getresgid()
    os.setresgid(number, number, before[0])
    try:
        yield
    finally:
        os.setresgid(*before)


def _iptables(*arguments: str) -> None:
    _run("iptables", "-w", *arguments)


def _run(*command: str) -> None:
    path = shutil.which(command[0]) or command[0]
    done = subprocess.run(  # noqa: S603 (tools of the system; the arguments are our own)
        [path, *command[1:]], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise SystemFault(f"{' '.join(command)}: {done.stderr.strip()}")
