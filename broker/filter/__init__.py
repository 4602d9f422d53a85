"""What consumers want of a topic, seen from the broker: conditions kept compiled, and members who disagree."""
