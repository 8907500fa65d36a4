"""Work 001: OPS, which recognises the congestion controls on a path and chooses among them."""
