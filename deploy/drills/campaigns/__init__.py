"""Campaigns: random drills for hours, and their reports."""
