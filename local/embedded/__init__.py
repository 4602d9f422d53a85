"""The engine `embedded://`: one mapped log a queue, served in the threads of its callers."""
