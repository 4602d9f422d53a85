"""RocketMQ's clients of the classic protocol for the tests of the proxy, fetched once under build/clients.

python tests/classic_clients.py        fetches what is missing: needs the package index, Maven's for Java (javac, mvn), and Go's
                                       where there is go
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from proxy_clients import CLIENTS, DRIVERS, fetch_jars, has_jars, jars_folder, java_driver
from rocketmq_tests import fetch_tests

JAVA_VERSIONS = ("5.5.0", "4.9.8")
JAVA_NAME = "rocketmq-client"
TOOLS = "rocketmq-tools"
CPP_CLIENT = "rocketmq==0.4.4"
GO_CLIENT = "rocketmq-client-go-2.1.2"
GO_DRIVER = DRIVERS / "go"


def java_folder(version: str) -> Path:
    """Where a Java client is, or will be: jar files in lib, the driver's classes beside it."""
    return jars_folder(JAVA_NAME, version)


def has_java(version: str) -> bool:
    """Whether that client is there, and Java to run it."""
    return has_jars(JAVA_NAME, version)


def java_command(version: str) -> list[str]:
    """Runs the driver."""
    return java_driver(JAVA_NAME, version, DRIVERS / "java" / "Scenario.java")


def has_tools(version: str) -> bool:
    """Whether RocketMQ's mqadmin is there, and Java to run it."""
    return has_jars(TOOLS, version)


def tools_command(version: str, namesrv: str) -> list[str]:
    """Runs mqadmin, which takes its commands from the input."""
    return [*java_driver(TOOLS, version, DRIVERS / "java" / "Tools.java"), namesrv]


def cpp_python() -> Path | None:
    """The Python of the environment that has RocketMQ's C++ client; None if it is not installed."""
    folder = CLIENTS / CPP_CLIENT
    return folder / "bin" / "python" if (folder / "installed").exists() else None


def go_driver() -> Path | None:
    """The driver of RocketMQ's Go client (go/scenario.go), compiled; None if that was not done."""
    made = CLIENTS / GO_CLIENT / "driver"
    return made if made.exists() else None


def install() -> None:
    """Fetches what is not there."""
    if go_driver() is None and shutil.which("go") is not None:
        folder = CLIENTS / GO_CLIENT
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(folder / "driver"), "."], cwd=GO_DRIVER, check=True)
    if cpp_python() is None:
        folder = CLIENTS / CPP_CLIENT
        venv.create(folder, clear=True, with_pip=True, symlinks=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, CPP_CLIENT], check=True)
        (folder / "installed").touch()
    for version in JAVA_VERSIONS:
        fetch_jars(JAVA_NAME, version)
        fetch_jars(TOOLS, version)
    fetch_tests()


if __name__ == "__main__":
    try:
        install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"RocketMQ's clients are not installed: {error}")
