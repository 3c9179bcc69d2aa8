"""Use a trained model: load its folder, choose an engine, translate, force-decode, and store encoded lines."""
