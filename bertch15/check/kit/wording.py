"""Words for what a check has found, the same in every exercise."""

from collections.abc import Sequence


def listed(faults: Sequence[str], most: int = 3) -> str:
    """Join the first names of a list, and say how many more there are."""
    rest = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return "; ".join(faults[:most]) + rest


def let_through(faults: Sequence[str], total: int) -> str:
    """Say how many faults of all get through, and which; empty if none does."""
    verb = "gets" if len(faults) == 1 else "get"
    return f"{len(faults)} of {total} faults {verb} through: {listed(faults)}." if faults else ""
