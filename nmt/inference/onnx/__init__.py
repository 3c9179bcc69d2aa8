"""Models without torch: what an exported folder holds, how it is written, and the engine that runs it."""
