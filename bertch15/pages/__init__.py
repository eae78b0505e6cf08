"""What the pages and the command line need: printed lines, shown source, progress bars, the check of a machine."""
