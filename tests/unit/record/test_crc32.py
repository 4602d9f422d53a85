"""The C function that the kernels call for a checksum, and what they do on a machine that has none."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from zenitmq.record.crc32 import crc32, crc32_address

TESTS = Path(__file__).parent.parent.parent

WITHOUT_ISAL = """
import sys
sys.modules["isal"] = None
import zlib
if sys.argv[1] == "interpreted":
    sys.path.append(sys.argv[2])
    from kernels import use_interpreted_kernel
    use_interpreted_kernel()
from zenitmq.record import codes, kernel
from zenitmq.record.crc32 import crc32, crc32_address
assert crc32 is zlib.crc32 and crc32_address() == 0
for size in (0, 1, 128, 1000):
    body = bytes(range(256)) * 4
    record = kernel.encode_record(topic=b"t", body=body[:size])
    assert int.from_bytes(record[8:12], "big") == zlib.crc32(body[:size]) & 0x7FFFFFFF
    run = kernel.RunKernel(record_max=1 << 20, body_max=1 << 20)
    for batch, expected in ((record, 1), (record[:8] + b"wide" + record[12:], codes.BAD_BODY_CRC)):
        assert run.stamp(bytearray(batch), 0, len(batch), b"t", 0, 1, 0, 0, 0, 0) == expected
    assert kernel.decode_record(record).body == body[:size]
"""


def test_an_address_is_given_only_of_a_function_whose_value_is_zlibs() -> None:
    isal = pytest.importorskip("isal.isal_zlib")
    assert crc32_address() != 0
    assert crc32_address(isal.__file__, "crc32_ieee") == 0  # another polynomial's order of bits
    assert crc32_address(isal.__file__, "no_such_function") == 0
    assert crc32_address(__file__) == 0
    assert crc32_address(None) == 0
    assert crc32(b"123456789") == zlib.crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("form", ["installed", "interpreted"])
def test_without_isal_the_kernels_check_bodies_all_the_same(form: str) -> None:
    """In a process of its own, since a kernel asks once, at its import."""
    command = [sys.executable, "-c", WITHOUT_ISAL, form, str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
