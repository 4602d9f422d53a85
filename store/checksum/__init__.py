"""The checksum side log: a checksum of each append, by which damage is found."""
