"""The zenit command: thin, prints; every verb calls client/ or a service."""
