"""Who did what: entries of the audit topic, written by brokers only."""
