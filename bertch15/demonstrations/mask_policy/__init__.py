"""The demonstration of 15.3: the mask policy on a sentence of the reader's own."""
