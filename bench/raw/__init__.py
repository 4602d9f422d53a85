"""The raw path: the same frames through the same sockets and writes, without a broker."""
