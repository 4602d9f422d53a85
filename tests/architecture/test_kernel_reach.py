"""Imports are followed to the kernels: what a run on interpreted kernels leaves out of its folders leads to none."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_reach import reaches_kernel

LEADS = {
    "from zenitmq.record.kernel import encode_record": True,
    "import zenitmq.broker.service": True,
    "def test() -> None:\n    from zenitmq.broker.service import Broker": True,
    "from zenitmq import Message, StoredMessage": True,
    "from store_kit import make_store": True,
    "from zenitmq import Message": False,
    "from zenitmq.model.groups.group import Group": False,
    "if TYPE_CHECKING:\n    from zenitmq.record.kernel import StoredMessage": False,
}


@pytest.mark.parametrize("source", LEADS)
def test_imports_are_followed_to_a_kernel(source: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(source)
    assert reaches_kernel(file) is LEADS[source]
