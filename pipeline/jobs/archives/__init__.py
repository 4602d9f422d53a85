"""The files of an archive: manifests, atomic commits, comparison with the brokers."""
