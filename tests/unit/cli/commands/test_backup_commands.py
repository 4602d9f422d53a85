"""Command lines of `zenit backup` that are refused before anything is uploaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from backup_kit import grow
from typer.testing import CliRunner

from zenitmq.cli.main import application


@pytest.mark.parametrize(("target", "code"), [("store", 2), ("store/inside", 2), ("beside", 0), ("store-2", 0)])
def test_no_backup_is_made_into_the_store_itself(tmp_path: Path, target: str, code: int) -> None:
    """It would go with it."""
    grow(tmp_path / "store", 3)
    (tmp_path / target).mkdir(exist_ok=True)
    before = set(os.listdir(tmp_path / "store"))
    command = ["backup", "run", str(tmp_path / "store"), str(tmp_path / target), "--group", "orders-a"]
    result = CliRunner().invoke(application(), command)
    assert (result.exit_code, "is in the store" in result.output) == (code, bool(code)), result.output
    assert set(os.listdir(tmp_path / "store")) == before
