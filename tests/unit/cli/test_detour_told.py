"""An error about a server that is reached by a detour says where that leads."""

from __future__ import annotations

import sys

import pytest

from zenitmq.cli.main import run
from zenitmq.remoting.addresses import ENVIRONMENT_DETOURS


@pytest.mark.parametrize(("detours", "told"), [("127.0.0.1:1=127.0.0.1:2", True), ("127.0.0.1:3=127.0.0.1:2", False)])
def test_a_detour_that_leads_nowhere_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], detours: str, told: bool
) -> None:
    monkeypatch.setenv(ENVIRONMENT_DETOURS, detours)
    monkeypatch.setattr(sys, "argv", ["zenit", "cluster", "--namesrv", "127.0.0.1:1"])
    with pytest.raises(SystemExit) as ending:
        run()
    said = capsys.readouterr().err
    assert (ending.value.code, said.startswith("zenit: cannot reach 127.0.0.1:1")) == (1, True)
    assert ("$ZENIT_DETOURS leads there by 127.0.0.1:2" in said) is told
