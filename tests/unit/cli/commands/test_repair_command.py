"""`zenit store repair`: what it says of an interruption, and where bytes are missing."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from zenitmq.broker.repair import store_repair
from zenitmq.cli.commands.store import repair

LEFT = {"begin": 4, "end": 9, "reason": "no replica's store was given"}


def test_an_interrupted_repair_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store_repair, "repair_store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repair("/store")
    assert "interrupted; /store has what was repaired so far" in capsys.readouterr().err


@pytest.mark.parametrize(("copy", "remedy"), [(None, "--from DIR, a replica's store"), ("/copy", "docs/operate.md")])
def test_damage_that_is_left_comes_with_a_remedy(
    copy: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"directory": "/store", "from": "", "dry_run": False, "repaired": [], "left": [LEFT], "units": 0}
    monkeypatch.setattr(store_repair, "repair_store", lambda *_, **__: document)
    with pytest.raises(typer.Exit):
        repair("/store", copy)
    told = capsys.readouterr()
    assert f"1 damaged range left in /store; {remedy}" in told.err
    assert "no replica's store was given" in told.out
