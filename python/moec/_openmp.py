"""Loads the OpenMP library, whose threads run kernels, in a way that lets them sleep soon when they wait. It reads the
environment when it is loaded, so nothing changes where it is there already; base/openmp.c says why, for programs."""
import ctypes
import os

SPIN_ROUNDS = "1000"


def load():
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return
    os.environ["GOMP_SPINCOUNT"] = SPIN_ROUNDS
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        pass  # a kernel that is loaded says what is missing
    finally:
        del os.environ["GOMP_SPINCOUNT"]


load()
