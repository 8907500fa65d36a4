"""What the recogniser of `weir.congestion.classify` learns from, and how good it is."""
