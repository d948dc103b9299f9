from __future__ import annotations

import subprocess
import sys

from pyspark import cloudpickle

from distributary.codecs.base import Failure
from distributary.codecs.notebook.shipped import shipped

WORKER = """
import pickle, sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "distributary":
            raise ModuleNotFoundError("No module named 'distributary'", name="distributary")

sys.meta_path.insert(0, Lacking())
get = pickle.loads(bytes.fromhex(sys.argv[1]))
try:
    get()
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_worker_without_distributary_says_which_setting_leads_it_to_one_that_has_it() -> None:
    def failed(row: int) -> Failure:
        return Failure(row, "malformed", "")

    assert shipped(failed)()(1) == failed(1)
    # As Spark sends it: the closure by value, what is imported by its name.
    sent: bytes = cloudpickle.dumps(shipped(failed))  # type: ignore[no-untyped-call]
    said = subprocess.run(
        [sys.executable, "-I", "-c", WORKER, sent.hex()], capture_output=True, text=True, check=True
    ).stdout
    assert "No module named 'distributary'" in said
    assert (
        f"Set PYSPARK_PYTHON (or spark.pyspark.python) to the Python that the driver runs, {sys.executable}"
        in said
    )
