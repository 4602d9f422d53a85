"""Topics of special kinds: light queues, lite topics."""
