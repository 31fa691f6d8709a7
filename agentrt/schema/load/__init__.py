"""From JSON schema documents to expressions."""
