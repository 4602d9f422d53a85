"""The record: its layout, and the compiled kernel that encodes, checks, stamps, scans, selects and decodes it."""
