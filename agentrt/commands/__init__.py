"""The commands of `agentrt`, one a module: `add_to(parser)` says what it takes and what it does."""
