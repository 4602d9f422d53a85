"""With this folder on PYTHONPATH every Python process, brokers too, runs on the kernel's source (see kernels.py beside)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from kernels import use_interpreted_kernel

use_interpreted_kernel()
