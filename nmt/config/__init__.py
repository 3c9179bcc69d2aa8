"""Configuration: composed from YAML files and overrides, checked, and returned as dataclasses."""
