"""HTTP/2 and gRPC as a server speaks them: bytes come in, what they mean is told, bytes go out. No sockets here."""
