"""Random drills for hours, and their account."""
