"""One handler a subject: what a broker answers to each request."""
