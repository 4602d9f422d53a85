"""The options of the format and the settings of jobs, as values. Pure."""
