"""A cluster by its name: chosen by an option, by the environment, or in use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from zenitmq.testing import LocalCluster

ZENIT = str(Path(sys.executable).with_name("zenit"))


def test_a_command_talks_to_the_cluster_of_its_context(one_broker: LocalCluster, tmp_path: Path) -> None:
    environment = {**one_broker.environ, "XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    environment.pop("ZENIT_NAMESRV", None)

    def zenit(*arguments: str, status: int = 0, **more: str) -> str:
        done = subprocess.run(
            [ZENIT, *arguments], env=environment | more, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    zenit("context", "add", "here", one_broker.namesrv)
    zenit("context", "add", "away", "no-such-host.invalid:1", "--use")
    zenit("topic", "create", "contextual", "--context", "here")
    assert "contextual" in zenit("topic", "list", ZENIT_CONTEXT="here")
    unknown = "the public key of no-such-host.invalid:1 is not known"  # with a key that is looked for first
    refused = unknown if "ZENIT_KEY" in environment else "the host name has no address"
    assert refused in zenit("topic", "list", status=1)
    assert "contextual" in zenit("topic", "list", ZENIT_NAMESRV=one_broker.namesrv)
    zenit("context", "use", "here")
    assert "did you mean 'contextual'?" in zenit("topic", "describe", "contextaul", status=1)
    assert "one of away, here" in zenit("topic", "list", "--context", "hree", status=2)
    zenit("topic", "list", "--context", "here", "--namesrv", one_broker.namesrv, status=2)
