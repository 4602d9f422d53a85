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

from proxy_clients import CLIENTS

JAVA_VERSIONS = ("5.5.0", "4.9.8")
CPP_CLIENT = "rocketmq==0.4.4"
GO_CLIENT = "rocketmq-client-go-2.1.2"
GO_DRIVER = Path(__file__).parent / "proxy" / "go"
DRIVER = Path(__file__).parent / "proxy" / "java" / "Scenario.java"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>zenitmq</groupId><artifactId>drivers</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-client</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


def java_folder(version: str) -> Path:
    """Where a Java client is, or will be: jar files in lib, the driver's classes beside it."""
    return CLIENTS / f"rocketmq-client-{version}"


def has_java(version: str) -> bool:
    """Whether that client is there, and Java to run it."""
    return shutil.which("java") is not None and (java_folder(version) / "installed").exists()


def java_command(version: str) -> list[str]:
    """Runs the driver; compiles it where its source is newer."""
    folder = java_folder(version)
    classes = folder / "classes"
    made = classes / "Scenario.class"
    if not made.exists() or made.stat().st_mtime < DRIVER.stat().st_mtime:
        command = ["javac", "-nowarn", "-cp", f"{folder / 'lib'}/*", "-d", str(classes), str(DRIVER)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    settings = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={folder}"]
    settings += ["-Drocketmq.client.rebalance.waitInterval=1000"]  # instead of 20 s
    return ["java", *settings, "-cp", f"{folder / 'lib'}/*:{classes}", "Scenario"]


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
        folder = java_folder(version)
        if (folder / "installed").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(version=version))
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
        subprocess.run(copy, cwd=folder, check=True)
        (folder / "installed").touch()


if __name__ == "__main__":
    try:
        install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"RocketMQ's clients are not installed: {error}")
