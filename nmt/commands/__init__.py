"""One thin file a command; ``scripts/`` and the installed ``nmt-…`` both call their ``main``."""
