"""Two processes in a network of their own, one of them cut off: prints what either heard of the other. For test_partition.

The victim (this file with the argument "victim", under a group id of its own) and the peer (this file without) hold two
connections, one opened by either. Both send one text on each connection while the victim is cut off; who has heard what
is told then, and again once the network is mended.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading

from zenitmq.deploy.drills.catalogue import Deed
from zenitmq.deploy.drills.faults import partition
from zenitmq.model.clock import monotonic_ms, sleep_ms

VICTIM_PORT, PEER_PORT = 5000, 6000
GROUP_ID, MARK = partition.GROUP_ID_FIRST, 1
ARRIVES_MS, MENDED_MS = 400, 8_000


class Side:
    """One process's two connections, and what came in on each: {"own": text, "other": text}, by who had opened it."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: dict[str, socket.socket] = {}
        self.heard = {"own": "", "other": ""}

    def connect(self, port: int) -> None:
        self._sockets["own"] = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._sockets["other"], _ = self._listener.accept()
        for name in self._sockets:
            threading.Thread(target=self._listen, args=(name,), daemon=True).start()

    def _listen(self, name: str) -> None:
        while True:
            select.select([self._sockets[name]], [], [])
            self.heard[name] += self._sockets[name].recv(100).decode()

    def send(self, text: str) -> None:
        for connection in self._sockets.values():
            connection.sendall(text.encode())

    def can_connect(self, port: int) -> bool:
        """Whether a new connection comes about in a moment."""
        try:
            socket.create_connection(("127.0.0.1", port), timeout=ARRIVES_MS / 1000).close()
        except OSError:
            return False
        return True


def victim() -> None:
    """Does what it is told on standard input."""
    side = Side(VICTIM_PORT)
    print("listening", flush=True)
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "connect":
            side.connect(PEER_PORT)
        elif word == "send":
            side.send(argument)
        elif word == "reach":
            print(json.dumps(side.can_connect(PEER_PORT)), flush=True)
        else:
            print(json.dumps(side.heard), flush=True)


def main() -> None:
    """The peer, which also does the cutting."""
    partition.enter_own_network()
    partition.set_up(1)
    peer = Side(PEER_PORT)
    with partition.group_id(GROUP_ID):
        child = subprocess.Popen(
            [sys.executable, __file__, "victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()

    def tell(text: str) -> None:
        child.stdin.write(text + "\n")

    def ask(text: str) -> object:
        tell(text)
        return json.loads(child.stdout.readline())

    tell("connect")
    peer.connect(VICTIM_PORT)
    found = {}
    everything = ""
    for deed in (Deed.CUT_IN, Deed.CUT_OUT, Deed.CUT_BOTH):
        before = {"victim": ask("heard"), "peer": dict(peer.heard)}
        partition.drop(deed, GROUP_ID, MARK, (VICTIM_PORT, VICTIM_PORT + 1))
        tell(f"send {deed.name}")
        peer.send(deed.name)
        sleep_ms(ARRIVES_MS)
        reach = {"peer": peer.can_connect(VICTIM_PORT), "victim": ask("reach")}
        held = {"victim": ask("heard"), "peer": dict(peer.heard)}
        partition.mend()
        everything += deed.name
        deadline_ms = monotonic_ms() + MENDED_MS
        whole = {"own": everything, "other": everything}
        while (ask("heard") != whole or peer.heard != whole) and monotonic_ms() < deadline_ms:
            sleep_ms(50)
        found[deed.name] = {
            "hears": {name: held[name] != before[name] for name in held},
            "reaches": reach,
            "mended": ask("heard") == whole == peer.heard,
        }
    child.kill()
    child.wait()
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:] == ["victim"]:
        victim()
    else:
        main()
