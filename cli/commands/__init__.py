"""The commands of `zenit`, one file a subject."""
