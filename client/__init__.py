"""Producer, pull consumer, admin: what users hold in their hands."""
