"""The clients for asyncio: the same cores, what waits as coroutines."""
