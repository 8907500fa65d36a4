"""What studies stand on: programs started in labs, one bottleneck, trials, captures, statistics."""
