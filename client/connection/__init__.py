"""A client's way to a cluster: connections, name servers, routes, membership, waiting."""
