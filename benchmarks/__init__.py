"""Measurements beside peers; never imported by agentrt."""
