"""What `docker inspect` says of the containers of deploy/compose.yaml, as far as drills read it."""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[5] / "deploy"
PORT = re.compile(r"127\.0\.0\.1:\$\{ZENIT_PORTS:-19\}(\d{3}):(\d+)")
IMAGE_VARIABLES = re.findall(
    r"^(?:ENV |    )(ZENIT_\w+=\S+)", (DEPLOY / "image" / "Dockerfile").read_text("utf-8"), re.MULTILINE
)


def id_of(service: str) -> str:
    return hashlib.sha256(service.encode()).hexdigest()


def inspected(*, without: str = "-") -> list[dict[str, Any]]:
    """One document a service, without those whose name begins so."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return [document(name, service) for name, service in services.items() if not name.startswith(without)]


def document(name: str, service: dict[str, Any]) -> dict[str, Any]:
    command = service.get("command")
    bindings = {}
    for text in service.get("ports", ()):
        if found := PORT.fullmatch(text):
            bindings[f"{found[2]}/tcp"] = [{"HostIp": "127.0.0.1", "HostPort": f"19{found[1]}"}]
    return {
        "Id": id_of(name),
        "Image": "sha256:0",
        "State": {"Status": "exited" if name == "keys" else "running"},
        "Config": {
            "Cmd": shlex.split(command) if isinstance(command, str) else command,
            "Env": IMAGE_VARIABLES + [f"{key}={value}" for key, value in service.get("environment", {}).items()],
            "Labels": {"com.docker.compose.service": name, "com.docker.compose.oneoff": "False"},
        },
        "HostConfig": {"PortBindings": bindings or None},
        "Mounts": [
            {"Destination": text.split(":")[1], "RW": not text.endswith(":ro")} for text in service.get("volumes", ())
        ],
        "NetworkSettings": {"Networks": {"zenit_default": {"Aliases": [id_of(name)[:12], name]}}},
    }


def of(documents: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(one for one in documents if one["Id"] == id_of(name))
