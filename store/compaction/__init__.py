"""Compacted topics: of each key the newest record stays for ever, in files beside the log."""
