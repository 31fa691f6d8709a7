"""A model's forward as a flat list of operations: recorded once, replayed without transformers."""
