"""Side-by-side measurements; never imported by agentrt."""
