"""What an installation is made of: lock files with hashes, and a bill of materials (SBOM) that it can be checked against."""
