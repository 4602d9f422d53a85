"""A bucket as the target of backups: S3 and what speaks its protocol, Google's and Azure's, by `obstore`.

The manifest is replaced with `If-Match`, so the service itself refuses a second writer. A reply that was lost makes the
library send again, and the second attempt is refused because the first one succeeded: so what is there is read before a
refusal is believed. Each call has a deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from ...model.errors import BackupConflict, BackupDamaged, BackupObjectMissing, BackupTargetFailed, InvalidParameter
from .target import Listed

PART_BYTES: Final = 16 << 20  # S3 takes 10,000 parts of an object
PARTS_AT_ONCE: Final = 4
RETRIES_MAX: Final = 8  # about five seconds: a restore of hours does not end because the service was busy for two
RETRY_S: Final = 60
REQUEST_S: Final = 60
CONNECT_S: Final = 10
_NO_SUCH_RANGE: Final = ("InvalidRange", "416")
_BUSY: Final = ("SlowDown", "ServiceUnavailable", "InternalError", "429", "500", "502", "503", "504")


class BucketTarget:
    """See `BackupTarget`."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        """`url`: s3://bucket/prefix and the like. `options`: obstore's; keys and region else come from the environment
        (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL, ...). Raises InvalidParameter."""
        self._name = url
        given: dict[str, Any] = dict(options or {})
        client = {"timeout": f"{REQUEST_S}s", "connect_timeout": f"{CONNECT_S}s"}
        if str(given.get("endpoint", "")).startswith("http://"):
            client["allow_http"] = "true"
        retry: Any = {"max_retries": RETRIES_MAX, "retry_timeout": timedelta(seconds=RETRY_S)}
        try:
            self._store: Any = from_url(url, client_options=client, retry_config=retry, **given)  # type: ignore[call-overload]
        except (BaseError, ValueError, TypeError) as error:
            raise InvalidParameter("target", url, f"a bucket's address: {_first_line(error)[:300]}") from error

    @property
    def name(self) -> str:
        """See `BackupTarget`."""
        return self._name

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        """See `BackupTarget`."""
        raised: list[BaseException] = []

        def given() -> Iterator[bytes]:
            try:
                yield from parts
            except BaseException as error:
                raised.append(error)
                raise

        try:
            with self._mapped():
                obstore.put(
                    self._store, name, given(), use_multipart=True, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
                )
        except BaseException:
            if raised:  # the library wraps it
                raise raised[0] from None
            raise

    def get(self, name: str, begin: int, end: int) -> bytes:
        """See `BackupTarget`."""
        try:
            with self._mapped():
                data = obstore.get_range(self._store, name, start=begin, end=end).to_bytes()
        except FileNotFoundError:
            raise BackupObjectMissing(self.name, name) from None
        except EOFError:
            raise BackupDamaged(self.name, f"{name} ends before byte {begin + 1}") from None
        if len(data) != end - begin:
            raise BackupDamaged(self.name, f"{name} ends at byte {begin + len(data)}")
        return data

    def list(self, prefix: str) -> list[Listed]:
        """See `BackupTarget`."""
        with self._mapped():
            return [
                Listed(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000))
                for batch in obstore.list(self._store, prefix.rstrip("/"))
                for found in batch
            ]

    def delete(self, name: str) -> None:
        """See `BackupTarget`."""
        try:
            with self._mapped():
                obstore.delete(self._store, name)
        except FileNotFoundError:
            return

    def read(self, name: str) -> tuple[bytes, str] | None:
        """See `BackupTarget`."""
        try:
            with self._mapped():
                found = obstore.get(self._store, name)
                data, version = found.bytes().to_bytes(), found.meta["e_tag"]
        except FileNotFoundError:
            return None
        if version is None:
            raise BackupTargetFailed(
                self.name, "it tells no ETag, so a second writer could not be refused; use another"
            )
        return data, version

    def replace(self, name: str, data: bytes, version: str | None) -> str:
        """See `BackupTarget`."""
        mode: Any = "create" if version is None else {"e_tag": version}
        try:
            with self._mapped():
                tag = obstore.put(self._store, name, data, mode=mode, use_multipart=False)["e_tag"]
        except BackupConflict:
            found = self.read(name)
            if found is None or found[0] != data:
                raise
            return found[1]
        if tag is None:
            raise BackupTargetFailed(
                self.name, "it tells no ETag, so a second writer could not be refused; use another"
            )
        return str(tag)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Raises FileNotFoundError where there is no such object, EOFError where it has none of the bytes that are wanted."""
        try:
            yield
        except (AlreadyExistsError, PreconditionError) as error:
            raise BackupConflict(self.name) from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            remedy = "give its key the rights to get, put, list and delete objects there"
            raise BackupTargetFailed(self.name, f"it refuses us ({_status(error)}); {remedy}") from error
        except (BaseError, OSError, ValueError) as error:
            if "NoSuchBucket" in str(error):
                raise BackupTargetFailed(self.name, "there is no such bucket; make it first") from error
            if isinstance(error, (FileNotFoundError, NotFoundError)):
                raise FileNotFoundError(str(error)) from error
            status = _status(error)
            if status.startswith(_NO_SUCH_RANGE):
                raise EOFError(str(error)) from error
            remedy = "check its address, region and the network"
            if status.startswith(_BUSY):
                remedy = "the service is busy, or does not work; run it again later"
            raise BackupTargetFailed(self.name, f"{status}; {remedy}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _status(error: BaseException) -> str:
    """What the service said, without the addresses in which it was asked."""
    text = str(error)
    for mark in ("<Code>", "status code: "):
        if mark in text:
            return text.partition(mark)[2].partition("<" if mark == "<Code>" else ":")[0].strip()
    return _first_line(error).rpartition(" - ")[2][:300]
