"""The clients for asyncio: the same cores as the synchronous clients; methods that wait are coroutines."""
