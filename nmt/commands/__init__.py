"""The commands, one thin file each. ``scripts/`` and the installed ``nmt-…`` programs call their ``main``."""
