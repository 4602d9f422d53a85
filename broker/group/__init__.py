"""A broker's place in its replica group and its cluster: who leads, whom it follows, which store is whose."""
