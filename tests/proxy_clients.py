"""RocketMQ's own clients for the tests of the proxy, installed once under build/clients, each in an environment of its own.

python tests/proxy_clients.py        installs what is missing; needs the package index
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

CLIENTS = Path(__file__).parents[1] / "build" / "clients"
PYTHON_CLIENT = "rocketmq-python-client==5.1.2"


def python_client() -> Path | None:
    """The Python of the environment that has RocketMQ's client; None if it is not installed."""
    folder = CLIENTS / PYTHON_CLIENT
    return folder / "bin" / "python" if (folder / "installed").exists() else None


def install() -> None:
    """Makes the environments that are not there."""
    if python_client() is not None:
        return
    folder = CLIENTS / PYTHON_CLIENT
    venv.create(folder, clear=True, with_pip=True, symlinks=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, PYTHON_CLIENT], check=True)
    (folder / "installed").touch()


if __name__ == "__main__":
    try:
        install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{PYTHON_CLIENT} is not installed: {error}")
