"""`--user NAME`: whose key file it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer

from zenitmq.cli.user_option import take_user


def test_a_users_key_is_looked_for_beside_the_key_that_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`zenit user create` puts it there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZENIT_KEY", str(tmp_path / "admin.key"))
    (tmp_path / "billing.key").touch()
    assert take_user(["topic", "list", "--user", "billing"]) == ["topic", "list"]
    assert os.environ["ZENIT_KEY"] == str(tmp_path / "billing.key")


def test_a_user_whose_key_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZENIT_KEY", "")
    (tmp_path / "billing.key").touch()  # the directory that one happens to be in is none of the places
    with pytest.raises(typer.BadParameter, match=r"no key file billing\.key"):
        take_user(["--user", "billing"])
