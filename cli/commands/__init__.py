"""The commands of `zenit`, one file per subject."""
