"""What the checks of several exercises share: the verdict, calling an answer, and saying what is wrong with it."""
