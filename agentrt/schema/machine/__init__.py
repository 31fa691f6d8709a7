"""The pushdown machine over bytes that follows a text through a compiled schema."""
