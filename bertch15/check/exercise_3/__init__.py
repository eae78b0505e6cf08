"""Exercise 3: assertions on the way to the loss."""
