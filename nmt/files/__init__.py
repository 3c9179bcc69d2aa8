"""Files and folders: atomic writes, locks, leftovers, safe reading, checksums."""
