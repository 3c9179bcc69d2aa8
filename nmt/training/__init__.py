"""Training with Lightning; no other package of nmt imports it."""
