"""`zenit sbom`: the bill of materials of this installation, and its check against another one."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any, Final

import typer

from ....model.errors import InvalidParameter
from ...options import Json
from ...output import show

SHIPPED: Final = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "deploy", "supply", "zenitmq.cdx.json")


def register(app: typer.Typer) -> None:
    """Adds this subject's commands."""
    sbom_app = typer.Typer()
    sbom_app.callback()(_group)
    sbom_app.command("make")(make)
    sbom_app.command("check")(check)
    app.add_typer(sbom_app, name="sbom")


def _group() -> None:
    """The bill of materials: which packages are installed, and which libraries are inside them."""


def make(
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write it to FILE instead of stdout.")] = None,
) -> None:
    """Print the bill of materials of this installation, as CycloneDX 1.6 in JSON."""
    from ....deploy.supply.installed import bill_of_installation

    text = json.dumps(bill_of_installation(), ensure_ascii=False, indent=1) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)


def check(
    path: Annotated[str | None, typer.Argument(metavar="[FILE]", help="Default: the one that is shipped.")] = None,
    as_json: Json = False,
) -> None:
    """Compare this installation with a bill of materials, and each file with what was installed; exit 1 if they differ."""
    from ....deploy.supply.bill_of_materials import differences, platform_of
    from ....deploy.supply.installed import bill_of_installation, changed_files

    expected, name = _read(path or SHIPPED), path or "the shipped bill"
    there = platform_of(expected, name)
    installed = bill_of_installation()
    here = platform_of(installed, "")
    found = differences(expected, installed, name) + list(changed_files())
    document = {"packages": len(installed["components"]), "platform": here, "bill_platform": there, "different": found}

    def lines() -> None:
        for line in found:
            typer.echo(line)
        if there != here:
            typer.echo(
                f"{name} is of {there}, this is {here}: versions were compared, files only with their own records"
            )
        if not found:
            typer.echo(f"{document['packages']} packages are as in {name}")

    show(document, as_json, lines)
    if found:
        raise typer.Exit(1)


def _read(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError):
            raise InvalidParameter(
                "FILE", path, "a bill of materials in CycloneDX, as zenit sbom make writes it"
            ) from None
