"""A client's connection to a cluster: sockets, name servers, routes, membership, waiting."""
