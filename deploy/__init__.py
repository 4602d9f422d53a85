"""Local clusters of real processes, launch scripts and configuration templates."""
