"""Which target an address means: a bucket's has a scheme, everything else is a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...model.errors import InvalidParameter, RequirementMissing
from .directory_target import DirectoryTarget
from .target import BackupTarget


def open_target(address: str, options: Mapping[str, str] | None = None) -> BackupTarget:
    """`options`: of a bucket. Raises InvalidParameter, RequirementMissing (a bucket without `obstore`)."""
    if "://" not in address:
        if options:
            raise InvalidParameter("--option", ", ".join(options), f"none: {address} is a directory")
        return DirectoryTarget(os.path.abspath(address))
    if address.startswith("file://"):
        return open_target(address.removeprefix("file://"), options)
    try:
        from .bucket_target import BucketTarget
    except ImportError:
        raise RequirementMissing(
            "obstore", "buckets need it: pip install 'zenitmq[backup]', in a clone '.[backup]'"
        ) from None
    return BucketTarget(address, options)
