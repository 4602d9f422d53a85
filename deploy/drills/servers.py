"""The seam between drills and the servers that they harm: what is done to a server, and what is asked of the cluster.

Two kinds of servers implement it: processes of this machine (process_servers.py), and containers of a compose project
(compose/compose_servers.py). Servers are meant by their name; which process or container has it now is theirs to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ...remoting.client import RemotingClient
from ..cluster_record import ServerRecord
from .catalogue import Deed

Group = Mapping[str, Any]
"""A replica group as in `zenit status`."""


class Servers(Protocol):
    """The servers of one cluster. One thread; `status` from a second one, too.

    What ends a server returns when it has ended. Raises RequestTimeout or SystemFault where something cannot be done.
    """

    @property
    def where(self) -> str:
        """The cluster's directory, or its project, for errors."""

    @property
    def slow_turns_ms(self) -> tuple[int, int]:
        """How long a slow server stands still, and then runs."""

    # ---- asked

    @property
    def namesrv(self) -> str:
        """The name servers' addresses."""

    def listed(self, role: str = "") -> Sequence[ServerRecord]:
        """The servers, of one role if it is given, in the order of their start."""

    def status(self) -> Mapping[str, Any]:
        """As `zenit status` has it: `groups`, and the address of the leading `controller`."""

    def client(self) -> AbstractContextManager[RemotingClient]:
        """A client that may ask all servers everything."""

    def environ(self) -> Mapping[str, str]:
        """With these variables a program on this machine reaches the cluster as its administrator."""

    def is_running(self, server: ServerRecord) -> bool:
        """Whether it runs; one that is paused does."""

    def differing_logs(self, groups: Sequence[Group]) -> list[str] | None:
        """Replicas of a group whose logs differ, byte for byte, as text; None if their files cannot be read from here."""

    def keep_logs(self, folder: str) -> None:
        """Writes what each server said into that folder, unless it is kept elsewhere."""

    # ---- done

    def kill(self, servers: Sequence[ServerRecord]) -> None:
        """SIGKILL, to all of them at almost the same moment."""

    def stop(self, server: ServerRecord) -> None:
        """SIGTERM: a broker hands over."""

    def wipe(self, server: ServerRecord) -> None:
        """Empties the store of a broker that has ended."""

    def start_again(self) -> None:
        """Starts all that have ended."""

    def pause(self, servers: Sequence[ServerRecord]) -> None:
        """They stand still; those that have ended are left out."""

    def go_on(self, servers: Sequence[ServerRecord]) -> None:
        """They run again."""

    def cut_off(self, server: ServerRecord, deed: Deed) -> None:
        """Takes the network from it, as one of CUTS_NETWORK says. Raises InvalidParameter if that cannot be done here."""

    def join_again(self) -> None:
        """Gives the network back to all that were cut off."""
