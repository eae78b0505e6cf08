"""The second demonstration of 15.6: the lab under the reader's own policy."""
