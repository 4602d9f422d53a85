"""Damage: found, kept out of sight, made whole again; and what a start after a crash keeps."""
