"""The clients for asyncio: the same cores, with coroutines where methods wait."""
