"""CPU kernels whose results do not depend on the batch: built from C on first use."""
