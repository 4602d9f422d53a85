"""The broker: request handlers by subject over one store and one loop."""
