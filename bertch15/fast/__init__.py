"""The fast engine behind `bertch15.lab`: the same draws and the same arithmetic as the plain loop, less overhead.

The plain loop in `bertch15.pretraining` and `bertch15.finetuning` is the text to read first.
"""
