"""Keys on sockets, who may connect, and what a connected user may ask for."""
