"""What every role's process sets up before it serves."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal
from zenitmq.cli.roles import load_role
from zenitmq.namesrv.config import NameServerConfig
load_role(NameServerConfig, "namesrv", None, None)
os.kill(os.getpid(), signal.SIGBUS)
"""


def test_a_fault_says_where_it_ended_the_process() -> None:
    """A page of a map that the disk cannot give, for one."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode < 0
    assert "Fatal Python error: Bus error" in done.stderr
    assert 'File "<string>", line 6' in done.stderr


LIMITED = """
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from zenitmq.cli.roles import load_role
from zenitmq.namesrv.config import NameServerConfig
load_role(NameServerConfig, "namesrv", None, None)
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))
"""


def test_a_role_takes_as_many_descriptors_as_its_hard_limit_gives() -> None:
    """Each connection takes one: with the usual 1,024 a thousand clients would end a broker."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n", done.stderr
