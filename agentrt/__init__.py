"""agentrt: async agent programs over a local, radix-cached, continuously batched decoder."""
