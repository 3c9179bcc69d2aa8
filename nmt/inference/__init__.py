"""A trained model at work: its folder on disk, the engines that run it, and the Translator."""
