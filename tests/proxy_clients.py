"""RocketMQ's own clients for the tests of the proxy, fetched once under build/clients, each in a folder of its own.

python tests/proxy_clients.py        fetches what is missing of gRPC's: needs the package index, and Maven's for Java
                                     (javac, mvn) and npm's for Node, where these are
python tests/proxy_clients.py rust   compiles Rust's too, where there is cargo: minutes of a core
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CLIENTS = Path(__file__).parents[1] / "build" / "clients"
PYTHON_CLIENT = "rocketmq-python-client==5.1.2"
JAVA_CLIENT = "rocketmq-client-java", "5.2.0"
NODE_CLIENT = "rocketmq-client-nodejs", "1.0.8"
UNREACHABLE = CLIENTS / "unreachable"
UNKNOWN = "Could not find artifact"
RUST_CLIENT = "rocketmq-rust-5.0.0"
DRIVERS = Path(__file__).parent / "proxy"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>zenitmq</groupId><artifactId>drivers</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.rocketmq</groupId><artifactId>{name}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


def needs_client(name: str, *, is_there: bool) -> pytest.MarkDecorator:
    """Tests that are skipped where a client could not be fetched, and say so."""
    import pytest  # not there yet when clients are fetched

    return pytest.mark.skipif(
        not is_there, reason=f"{name} is not there: python tests/proxy_clients.py, classic_clients.py"
    )


def python_client() -> Path | None:
    """The Python of the environment that has RocketMQ's client; None if it is not installed."""
    folder = CLIENTS / PYTHON_CLIENT
    return folder / "bin" / "python" if (folder / "installed").exists() else None


def jars_folder(name: str, version: str) -> Path:
    """Where a Java client is, or will be: jar files in lib, a driver's classes beside it."""
    return CLIENTS / f"{name}-{version}"


def has_jars(name: str, version: str) -> bool:
    """Whether that client is there, and Java to run it."""
    return shutil.which("java") is not None and (jars_folder(name, version) / "installed").exists()


def java_driver(name: str, version: str, source: Path) -> list[str]:
    """The command of a driver of a Java client; compiles it where its source, or what all drivers share, is newer."""
    folder = jars_folder(name, version)
    classes = folder / "classes"
    made = classes / f"{source.stem}.class"
    shared = source.with_name("Driver.java")
    if not made.exists() or made.stat().st_mtime < max(source.stat().st_mtime, shared.stat().st_mtime):
        sources = [str(source), str(shared)]
        command = ["javac", "-nowarn", "-cp", f"{folder / 'lib'}/*", "-d", str(classes), *sources]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    settings = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={folder}"]
    settings += ["-Drocketmq.client.rebalance.waitInterval=1000"]  # instead of 20 s
    return ["java", *settings, "-cp", f"{folder / 'lib'}/*:{classes}", source.stem]


def fetch_jars(name: str, version: str) -> None:
    """A Java client and what it needs, if it is not there. Raises OSError, CalledProcessError.

    UNREACHABLE says why Maven did not come to its repository, if it did not: the repository knows each of these clients.
    """
    folder = jars_folder(name, version)
    if (folder / "installed").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(name=name, version=version))
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
    done = subprocess.run(copy, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        said = done.stdout.strip().partition("\n")[0]
        if UNKNOWN not in said:
            UNREACHABLE.write_text(said)
        raise subprocess.CalledProcessError(done.returncode, copy, said)
    UNREACHABLE.unlink(missing_ok=True)
    (folder / "installed").touch()


def node_modules() -> Path | None:
    """The folder for NODE_PATH that has RocketMQ's Node client; None if it is not installed, or there is no Node."""
    folder = CLIENTS / "-".join(NODE_CLIENT)
    is_there = shutil.which("node") is not None and (folder / "installed").exists()
    return folder / "node_modules" if is_there else None


def rust_project() -> Path | None:
    """The folder in which RocketMQ's Rust client is compiled; None if it is not, if there is no cargo, or no network interface
    beside lo: from its address the client makes ids, and ends without."""
    folder = CLIENTS / RUST_CLIENT
    can_run = shutil.which("cargo") is not None and len(socket.if_nameindex()) > 1
    return folder if can_run and (folder / "installed").exists() else None


def compile_rust(program: str, dependencies: str) -> Path:
    """A program that uses it, compiled. `dependencies`: of its Cargo.toml."""
    folder = CLIENTS / RUST_CLIENT
    (folder / "src").mkdir(parents=True, exist_ok=True)
    head = '[package]\nname = "orders"\nversion = "1.0.0"\nedition = "2021"\n\n'
    (folder / "Cargo.toml").write_text(head + dependencies)
    (folder / "src" / "main.rs").write_text(program)
    subprocess.run(["cargo", "build", "--quiet"], cwd=folder, check=True)
    return folder / "target" / "debug" / "orders"


def _fetch_rust() -> None:
    page = Path(__file__).parents[1] / "docs" / "guide" / "rocketmq-clients" / "rust.md"
    dependencies = page.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    compile_rust("fn main() {}", dependencies)
    (CLIENTS / RUST_CLIENT / "installed").touch()


def _fetch_python() -> None:
    if python_client() is not None:
        return
    folder = CLIENTS / PYTHON_CLIENT
    venv.create(folder, clear=True, with_pip=True, symlinks=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, PYTHON_CLIENT], check=True)
    (folder / "installed").touch()


def _fetch_java() -> None:
    if shutil.which("mvn") is not None:
        fetch_jars(*JAVA_CLIENT)


def _fetch_node() -> None:
    folder = CLIENTS / "-".join(NODE_CLIENT)
    if shutil.which("npm") is None or (folder / "installed").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
    subprocess.run(["npm", "install", *options, "@".join(NODE_CLIENT)], cwd=folder, check=True)
    (folder / "installed").touch()


def install(*more: str) -> list[str]:
    """Fetches what is not there; what went wrong. `more`: "rust"."""
    failed = []
    fetches = [_fetch_python, _fetch_java, _fetch_node]
    if "rust" in more:
        fetches.append(_fetch_rust)
    for fetch in fetches:
        try:
            fetch()
        except (OSError, subprocess.CalledProcessError) as error:
            failed.append(str(error))
    return failed


if __name__ == "__main__":
    if errors := install(*sys.argv[1:]):
        sys.exit("clients of RocketMQ are not installed: " + "; ".join(errors))
