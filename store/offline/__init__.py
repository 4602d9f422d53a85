"""Work on a store's files without a broker: inspect, verify, dump, hand over."""
