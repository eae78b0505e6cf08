"""The helper package of the executable chapter "The BERT Moment: pretraining as the new regime".

Importing it changes nothing: no seed, no thread count, no global flag, nothing printed.
Start reading at `bertch15.recipe`, where every constant of the transfer lab stands.
"""

__version__ = "1.0.0"
