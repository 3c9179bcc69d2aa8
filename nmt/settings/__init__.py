"""Settings as types: bounds, checks, dataclasses and the classes that a ``_target_`` may name."""
