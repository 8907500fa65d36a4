"""Independent runs: what identifies them, where their results are kept, what computes them."""
