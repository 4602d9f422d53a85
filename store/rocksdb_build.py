"""Which RocksDB is inside the binding: it has no version of its own to ask, but RocksDB writes it into each database."""

from __future__ import annotations

import os
import re
from typing import Final

from rocksdict import Rdict

_VERSION: Final = re.compile(r"^\s*rocksdb_version=(\S+)$", re.MULTILINE)


def rocksdb_version(scratch: str) -> str:
    """The version, as a database says that is made in `scratch`, an empty directory; "" if it says none."""
    Rdict(scratch).close()
    for name in sorted(os.listdir(scratch)):
        if name.startswith("OPTIONS-"):
            with open(os.path.join(scratch, name), encoding="utf-8") as file:
                if found := _VERSION.search(file.read()):
                    return found[1]
    return ""
