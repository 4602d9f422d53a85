"""The record: its layout, and the compiled kernels that encode, check, stamp, scan, select and decode it."""
