"""Finding damage in a broker's store and fetching what is whole from a replica."""
