"""Backups of a replica group's log: to a directory or a bucket, and back."""
