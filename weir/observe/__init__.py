"""What no host can tell of itself, measured from outside: a fabric that stalls, a late desktop."""
