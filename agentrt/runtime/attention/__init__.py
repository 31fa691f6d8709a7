"""Attention over a paged KV pool with one token a slot: `plan` once a batch, `run` once a layer."""
