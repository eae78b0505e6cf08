"""The demonstration of 15.1: one query, and the keys that it may read."""
