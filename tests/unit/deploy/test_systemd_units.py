"""The units of systemd: systemd itself finds no fault in them, and what they start are commands that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zenitmq.cli.command_table import COMMANDS
from zenitmq.model.config import config_schema
from zenitmq.proxy.config import ProxyConfig
from zenitmq.remoting.security.security_config import SecurityConfig

UNITS = sorted((Path(__file__).parents[3] / "deploy" / "systemd").glob("*.service"))
EXPOSURE_MAX = 20  # of 100, as `systemd-analyze security` counts; an ordinary service has 96
ANALYZE = shutil.which("systemd-analyze")


def lines_of(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^#?{key}=(.*)$", unit.read_text(), re.MULTILINE)


def test_there_is_one_for_each_role() -> None:
    assert [unit.name for unit in UNITS] == [
        "zenit-broker@.service",
        "zenit-controller.service",
        "zenit-namesrv.service",
        "zenit-proxy.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_it_starts_a_command_and_sets_what_can_be_set(unit: Path) -> None:
    (start,) = lines_of(unit, "ExecStart")
    program, role, option, _ = start.split()
    assert (program, option) == ("/opt/zenit/bin/zenit", "--config")
    assert unit.name.startswith(f"zenit-{role}")
    assert role in COMMANDS
    keys = {f"ZENIT_SECURITY__{info.key.upper()}" for info in config_schema(SecurityConfig)}
    if role == "proxy":
        keys = {f"ZENIT_PROXY__{info.key.upper()}" for info in config_schema(ProxyConfig)}
    for variable in lines_of(unit, "Environment"):
        assert variable.partition("=")[0] in keys


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: apt-get install systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_no_fault_and_little_exposure(unit: Path, tmp_path: Path) -> None:
    assert ANALYZE is not None
    copy = tmp_path / unit.name.replace("@", "@a-1")
    copy.write_text(unit.read_text().replace("/opt/zenit/bin/zenit", sys.executable).replace("\n#Load", "\nLoad"))
    verified = subprocess.run([ANALYZE, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        [ANALYZE, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout
