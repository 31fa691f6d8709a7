"""Token masks: which vocabulary tokens may come next."""
