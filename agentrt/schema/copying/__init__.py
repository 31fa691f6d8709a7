"""Values that are copied from a text: its spans, its numbers and its dates."""
