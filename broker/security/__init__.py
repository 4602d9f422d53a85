"""Users, roles and rules at a broker: kept in the log, changed by requests, told to other servers."""
