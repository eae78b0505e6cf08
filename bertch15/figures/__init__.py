"""The figures of the chapter: one function each, giving the picture and one sentence with its key numbers."""
