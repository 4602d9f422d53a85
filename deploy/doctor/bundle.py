"""`zenit debug bundle`: one archive of what somebody needs who looks into a fault from afar. No message, no key is in it."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import stat
import tarfile
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...client.admin import Admin
from ...model.clock import now_ms
from ...model.errors import InvalidParameter, ZenitError
from ...model.names import VERSION
from .masking import masked, masked_text
from .report import Examined, report_lines

LOG_BYTES_MAX: Final = 1 << 20  # the end of each log
LOGS_MAX: Final = 64
TOPICS_MAX: Final = 2_000
PACKAGES: Final = (
    "pyzmq",
    "msgpack",
    "numpy",
    "lz4",
    "zstandard",
    "rocksdict",
    "isal",
    "kazoo",
    "typer",
    "pyspark",
    "pyarrow",
)

README: Final = """What `zenit debug bundle` collected. No message, no key and no password is in it: what looks like one is ***.
doctor.txt, doctor.json   what each server found when it examined itself (zenit doctor)
versions.json             of Python, ZenitMQ and its packages on this machine
cluster.json              brokers as the name servers know them
events.json               what happened: elections, in-sync sets, damage, refusals
brokers/*.json            the configuration and counters of each broker
topics.json, groups.json  their settings
logs/*                    the last MiB of each log of the local cluster; failed.json: what could not be had, and why
"""


class Bundle:
    """The archive while it is written. `told`: called with the name of each part, or that it is missing and why."""

    def __init__(self, archive: tarfile.TarFile, root: str, told: Callable[[str], None]) -> None:
        self._archive = archive
        self._root = root
        self._told = told
        self._failed: dict[str, str] = {}

    def add_text(self, name: str, text: str) -> None:
        """A text, masked."""
        self._add(name, masked_text(text))

    def _add(self, name: str, text: str) -> None:
        data = text.encode("utf-8", "replace")
        info = tarfile.TarInfo(f"{self._root}/{name}")
        info.size, info.mtime, info.mode = len(data), now_ms() // 1000, 0o600
        self._archive.addfile(info, io.BytesIO(data))
        self._told(name)

    def add_document(self, name: str, ask: Callable[[], Any]) -> None:
        """A JSON document; where it cannot be had, why."""
        try:
            document = ask()
        except ZenitError as error:
            self.add_failure(name, str(error))
            return
        self._add_masked(name, document)

    def add_failure(self, name: str, why: str) -> None:
        """A part that could not be had."""
        self._failed[name] = why
        self._told(f"{name} is missing: {why}")

    def _add_masked(self, name: str, document: Any) -> None:
        """Not by `add_text`: what masks a text does not know where a value of JSON ends."""
        self._add(name, json.dumps(masked(document), indent=1, ensure_ascii=False, default=str))

    def finish(self) -> None:
        """What could not be had."""
        if self._failed:
            self._add_masked("failed.json", self._failed)


def write_bundle(
    path: str, namesrv: str | None, examined: list[Examined], *, log_directory: str | None, told: Callable[[str], None]
) -> None:
    """Writes the archive, mode 600, whole or not at all. Raises InvalidParameter if the file exists or cannot be written."""
    root = os.path.basename(path).removesuffix(".tar.gz")
    temporary = f"{path}.tmp"
    if os.path.exists(path):
        raise InvalidParameter("file", path, "one that is not there yet")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise _unwritten(temporary if isinstance(error, FileExistsError) else path, error) from None
    try:
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            bundle = Bundle(archive, root, told)
            bundle.add_text("README.txt", README)
            bundle.add_text("doctor.txt", "\n".join(report_lines(examined, with_ok=True)) + "\n")
            bundle.add_document("doctor.json", lambda: [one.document() for one in examined])
            bundle.add_document("versions.json", _versions)
            _add_cluster(bundle, namesrv)
            if log_directory is not None and not os.path.isdir(log_directory):
                bundle.add_failure("logs", f"there is no directory {log_directory}")
            for name, text in _logs(log_directory):
                bundle.add_text(f"logs/{name}", text)
            bundle.finish()
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise _unwritten(path, error) from None
    except BaseException:
        os.unlink(temporary)
        raise


def _unwritten(path: str, error: OSError) -> InvalidParameter:
    return InvalidParameter("file", path, f"one that can be written ({error.strerror})")


def _add_cluster(bundle: Bundle, namesrv: str | None) -> None:
    with Admin(namesrv) as admin:
        bundle.add_document("cluster.json", admin.cluster)
        bundle.add_document("events.json", admin.events)
        bundle.add_document("topics.json", lambda: admin.topic_configs()[:TOPICS_MAX])
        bundle.add_document("groups.json", admin.groups)
        try:
            brokers = [one["broker_name"] for one in admin.cluster()["brokers"] if one["broker_id"] == 0]
        except ZenitError:
            return
        for name in sorted(set(brokers)):
            for what, ask in (("config", admin.broker_config), ("statistics", admin.broker_statistics)):
                bundle.add_document(f"brokers/{name}.{what}.json", lambda ask=ask, name=name: ask(name))  # type: ignore[misc]


def _versions() -> dict[str, str]:
    found = {"zenitmq": VERSION, "python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _logs(directory: str | None) -> Iterator[tuple[str, str]]:
    """(name, the end of its text) of each log, without a line that is not whole: it may begin within a secret."""
    if directory is None or not os.path.isdir(directory):
        return
    for name in sorted(os.listdir(directory))[:LOGS_MAX]:
        try:
            with open(os.path.join(directory, name), "rb", opener=_opened) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    continue
                if found.st_size > LOG_BYTES_MAX:
                    file.seek(found.st_size - LOG_BYTES_MAX)
                    file.readline(LOG_BYTES_MAX)
                text = file.read(LOG_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            continue
        yield name, text


def _opened(path: str, flags: int) -> int:
    """No link to what is no log, and a pipe keeps nobody waiting."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
