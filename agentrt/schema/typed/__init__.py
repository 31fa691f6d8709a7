"""Python types to JSON schemas that their validators hold to."""
