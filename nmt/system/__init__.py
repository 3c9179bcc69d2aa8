"""The machine: cores, RAM, worker processes and progress on stderr."""
