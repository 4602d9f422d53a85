"""The trusted file is read again when it has changed, and only if it can be right."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from zenitmq.model.errors import ConfigError, KeyFileRefused
from zenitmq.model.security.principals import Binding, User, UserKind
from zenitmq.model.security.trusted_file import StaticRow, encode_trusted
from zenitmq.remoting.security.key_file import KeyFile, KeyPair, write_key_file
from zenitmq.remoting.security.key_ring import KeyRing
from zenitmq.remoting.security.opened_security import Secured, TrustedWatch, read_identity, read_trusted, server_ring
from zenitmq.remoting.security.security_config import SecurityConfig

OWN = StaticRow(User("node", ("n" * 40,), UserKind.SERVER, binding=Binding("c", "broker-a", "node")))
ROOT = StaticRow(User("root", ("r" * 40,), UserKind.SUPER))


class Watched:
    """A trusted file, and what a server made of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(OWN)
        keys = KeyRing(KeyPair("n" * 40, "s" * 40))
        self.told: list[tuple[StaticRow, ...]] = []
        self.watch = TrustedWatch(Secured(cast("Any", None), keys, (OWN,), str(path)), self.told.append)

    def write(self, *rows: StaticRow, tail: str = "") -> None:
        self.path.write_text(encode_trusted(rows) + tail)
        self.path.chmod(0o644)

    def look(self) -> list[tuple[StaticRow, ...]]:
        self.watch.look()
        told, self.told[:] = list(self.told), []
        return told


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "trusted.toml")


def test_it_is_read_again_when_it_has_changed(watched: Watched) -> None:
    assert watched.look() == []
    watched.write(OWN, ROOT)
    assert watched.look() == [(OWN, ROOT)]
    assert watched.look() == []


def test_a_file_that_is_written_in_part_locks_nobody_out(watched: Watched) -> None:
    watched.write()
    assert watched.look() == [], "cut to nothing, as an editor does before it writes"
    watched.write(ROOT)
    assert watched.look() == [], "this server is not in it"
    watched.write(OWN, tail="[[user]]\nname = ")
    assert watched.look() == []
    watched.write(OWN, ROOT)
    assert watched.look() == [(OWN, ROOT)]


def test_a_file_that_was_written_anew_as_it_was_changes_nothing(watched: Watched) -> None:
    watched.write(OWN)
    os.utime(watched.path, ns=(1, 1))
    assert watched.look() == []


def test_the_remedy_that_the_refusal_names_helps(watched: Watched) -> None:
    watched.write(OWN, ROOT)
    watched.path.chmod(0o664)
    assert watched.look() == [], "others may write it"
    watched.path.chmod(0o644)
    assert watched.look() == [(OWN, ROOT)]


def test_the_trusted_file_of_another_account_is_refused(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner may write it whatever its mode says."""
    seen = os.stat(watched.path)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((*seen[:4], 4243, *seen[5:])))
    with pytest.raises(KeyFileRefused, match=r"another account \(user id 4243\): chown 4242"):
        read_trusted(str(watched.path))


def test_of_a_name_server_whose_key_is_changed_both_are_tried() -> None:
    """The trusted file says what counts, not what the key file said when it was made."""
    user = User("ns", ("b" * 40, "a" * 40), UserKind.SERVER, binding=Binding("c", "", "ns"))
    key = KeyFile("node", KeyPair("n" * 40, "s" * 40), {"h:1": ("a" * 40,), "h:2": ("c" * 40,)})
    ring = server_ring(key, (OWN, StaticRow(user, ("h:1",))))
    tried = [ring.key_of("h:1")]
    ring.on_failed("h:1")
    tried.append(ring.key_of("h:1"))
    assert tried == ["b" * 40, "a" * 40]
    assert ring.key_of("h:2") == "c" * 40


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        (Binding("c", "broker-a", "node"), ""),
        (Binding("*", "*", "*"), ""),
        (Binding("other", "broker-a", "node"), "of the cluster c; this one is of 'other'"),
        (Binding("c", "broker-b", "node"), "of the group broker-a; this one is of 'broker-b'"),
        (Binding("c", "broker-a", "node-2"), "of the replica node; this one is of 'node-2'"),
        (Binding("c", "", "namesrv-1"), "of the group broker-a; this one is of ''"),
    ],
)
def test_a_server_with_the_key_of_another_one_does_not_start(tmp_path: Path, binding: Binding, expected: str) -> None:
    """It would be refused by every other server, as long as it runs."""
    trusted, key = tmp_path / "trusted.toml", tmp_path / "node.key"
    trusted.write_text(encode_trusted([StaticRow(User("node", ("n" * 40,), UserKind.SERVER, binding=binding))]))
    trusted.chmod(0o644)
    write_key_file(str(key), KeyFile("node", KeyPair("n" * 40, "s" * 40), {}))
    config = SecurityConfig(key=str(key), trusted=str(trusted))
    wanted = Binding("c", "broker-a", "node")
    if not expected:
        assert read_identity(config, wanted).rows
        return
    with pytest.raises(ConfigError, match=expected) as refused:
        read_identity(config, wanted)
    assert "security.key" in str(refused.value)
