"""`zenit sbom` writes a bill, compares it with what is installed, and fails where they differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from zenitmq.cli.commands.installation.sbom import check, make
from zenitmq.deploy.supply import installed
from zenitmq.deploy.supply.bill_of_materials import Package, bill
from zenitmq.model.errors import InvalidParameter


def install(
    monkeypatch: pytest.MonkeyPatch, version: str, *, platform: str = "here", changed: tuple[str, ...] = ()
) -> None:
    document = bill(Package("zenitmq", "0.1.0"), [Package("pyzmq", version, "ab")], platform)
    monkeypatch.setattr(installed, "bill_of_installation", lambda: document)
    monkeypatch.setattr(installed, "changed_files", lambda: iter(changed))


def test_a_bill_that_was_made_here_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, "27.3.0")
    file = tmp_path / "bill.json"
    make(str(file))
    make(None)
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())
    check(str(file))
    assert capsys.readouterr().out == f"1 packages are as in {file}\n"
    install(monkeypatch, "27.3.1", platform="elsewhere", changed=("x.py of pyzmq 27.3.1 is missing",))
    with pytest.raises(typer.Exit):
        check(str(file))
    assert capsys.readouterr().out.splitlines() == [
        f"pyzmq 27.3.1 is installed; {file} has 27.3.0",
        "x.py of pyzmq 27.3.1 is missing",
        f"{file} is of here, this is elsewhere: versions were compared, files only with their own records",
    ]
    with pytest.raises(typer.Exit):
        check(str(file), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["packages"], told["platform"], len(told["different"])) == (1, "elsewhere", 2)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "\x00"])
def test_what_is_no_bill_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    install(monkeypatch, "1")
    file = tmp_path / "bill.json"
    file.write_text(text)
    with pytest.raises(InvalidParameter, match="zenit sbom make"):
        check(str(file))


def test_the_shipped_bill_is_the_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    install(monkeypatch, "0.0.1")
    with pytest.raises(typer.Exit):
        check(None)
    assert capsys.readouterr().out.startswith("pyzmq 0.0.1 is installed; the shipped bill has ")
