"""Carries a campaign out: each leg is `zenit drill run random` as a process of its own, with a report to read afterwards.

A process a leg, so that a leg that breaks off ends nothing but itself, and its network ends with it. The account is
written anew after each leg: whatever ends a campaign, what it found until then is there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...model.clock import monotonic_ms, now_ms
from ...model.errors import InvalidParameter
from . import campaign_page
from .campaign import LEG_MINUTES, Account, Leg, document, legs

LEG_MORE_S: Final = 900
"""What a leg may take beyond its faults: the cluster's start, the last fault's mending, reading everything back."""
END_S: Final = 60

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOptions:
    """What a user may choose. `report_directory`: campaign.json, campaign.html, campaign.svg and each leg's report."""

    hours: float
    seed: int = 1
    rate: float = 5_000.0
    leg_minutes: float = LEG_MINUTES
    report_directory: str | None = None

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("hours", self.hours, 0.001, 24 * 30),
            ("leg_minutes", self.leg_minutes, 0.05, 240),
            ("rate", self.rate, 1, 1_000_000),
        ):
            if not least <= value <= most:
                raise InvalidParameter(name, value, f"{least:g} to {most:g}")


def run_campaign(options: CampaignOptions, say: Say = lambda _: None) -> dict[str, Any]:
    """Runs it and returns its document. A leg that began before the time was over is carried out to its end."""
    directory = options.report_directory or tempfile.mkdtemp(prefix="zenit-campaign-")
    os.makedirs(directory, exist_ok=True)
    began_ms, began = now_ms(), monotonic_ms()
    accounts: list[Account] = []
    account: dict[str, Any] = {}
    for leg in legs(options.seed, options.leg_minutes):
        if monotonic_ms() - began >= options.hours * 3_600_000:
            break
        say(f"leg {leg.number + 1}, {leg.kind.name}, seed {leg.seed}")
        accounts.append(_carry_out(leg, options, directory, began, say))
        account = document(accounts, seed=options.seed, hours=options.hours, began_ms=began_ms)
        _write(directory, account)
    say(f"the account is in {directory}")
    return account


def _carry_out(leg: Leg, options: CampaignOptions, directory: str, began: int, say: Say) -> Account:
    report = os.path.join(directory, f"leg-{leg.number:03d}")
    begin_ms = monotonic_ms() - began
    failure, evidence = _run_drill(_command(leg, options, report), leg, say)
    found: dict[str, Any] | None = None
    try:
        with open(os.path.join(report, "random.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        failure = failure or "it wrote no report"
    return Account(
        leg=leg,
        began_ms=begin_ms,
        ended_ms=monotonic_ms() - began,
        document=found,
        failure="" if found is not None else failure,
        evidence=evidence,
    )


def _command(leg: Leg, options: CampaignOptions, report: str) -> list[str]:
    kind = leg.kind
    command = [sys.executable, "-P", "-m", "zenitmq", "drill", "run", "random", "--report", report]
    command += ["--replicas", str(kind.replicas), "--controllers", str(kind.controllers), "--groups", str(kind.groups)]
    command += ["--seed", str(leg.seed), "--minutes", str(leg.minutes), "--rate", str(options.rate)]
    return command + (["--power"] if kind.power else []) + (["--disks"] if kind.disks else [])


def _run_drill(command: list[str], leg: Leg, say: Say) -> tuple[str, str]:
    """Passes on what it says; returns (why it broke off, "" where it did not; where evidence was kept)."""
    last = evidence = ""
    with subprocess.Popen(  # noqa: S603 (our own interpreter and module)
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        deadline = threading.Timer(leg.minutes * 60 + LEG_MORE_S, process.send_signal, (signal.SIGINT,))
        deadline.start()  # a drill that is interrupted ends what it started
        try:
            for line in process.stderr:
                last = line.strip() or last
                if " kept in " in last:
                    evidence = last.rpartition(" kept in ")[2]
                say(last)
            status = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait(END_S)
            raise
        finally:
            deadline.cancel()
    return (last if status else ""), evidence


def _write(directory: str, account: dict[str, Any]) -> None:
    picture = campaign_page.picture(account)
    for name, text in (
        ("campaign.json", json.dumps(account, indent=1) + "\n"),
        ("campaign.svg", picture),
        ("campaign.html", campaign_page.page(account, picture)),
    ):
        path = os.path.join(directory, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)
