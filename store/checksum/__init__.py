"""The checksum side log: what was written by each append, by which damage is found."""
