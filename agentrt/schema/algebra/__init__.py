"""What a schema means: sets of JSON values, combined exactly."""
