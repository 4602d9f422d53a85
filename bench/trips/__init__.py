"""Where the time of a round trip goes: stamps of each stage in both processes, and what each thread used."""
