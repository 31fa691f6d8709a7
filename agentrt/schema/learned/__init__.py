"""Masks kept on disk: what one process worked out at length, the next one reads."""
