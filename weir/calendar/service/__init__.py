"""The one writer that makes each decision durable before it is answered, and what all may read."""
