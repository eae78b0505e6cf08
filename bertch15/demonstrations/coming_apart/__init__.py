"""The first demonstration of 15.6: two families of words come apart while a model is pretrained."""
