"""Transactions: a half message waits in the log, seen by nobody, until its producer says what becomes of it."""
