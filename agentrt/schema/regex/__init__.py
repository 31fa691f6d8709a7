"""Regular expressions, from text to deterministic automata over code points."""
