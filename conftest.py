"""What every kernel under test finds in its environment: one thread, no progress bar, stable names in warnings."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["BERTCH15_PROGRESS"] = "0"
os.environ["IPYKERNEL_CELL_NAME"] = "<cell>"

pytest_plugins = ["how_far", "all_cores"]
