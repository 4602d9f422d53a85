"""A rolling upgrade: which server is restarted after which, and when it is safe to go on."""
