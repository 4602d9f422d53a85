"""Loads for a proxy: clients of both its protocols that cost little, so that the proxy is measured and not they."""
