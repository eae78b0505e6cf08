"""What the audits of exercise 6 are tried on: sound functions, and functions with a single fault each."""
