"""The commands, one thin file each. ``programs`` starts them: ``scripts/`` and the installed ``nmt-…`` call it."""
