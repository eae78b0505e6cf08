"""The book's colours: two far apart in hue and lightness, a grey for what is only reference, the ink of text."""

BLUE, ORANGE, GREY, INK = "#1f5fa8", "#e08a1e", "#8a8f98", "#22262b"
