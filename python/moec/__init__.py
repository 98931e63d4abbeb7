"""Mixture-of-experts kernels from equations in index notation.

    m = moec.load("ffn.moe")                 # compiled, or a kernel.so that was compiled before
    y = m.ffn(x, moec.route(ids, experts), p, wg, wu, wd)

Tensors are numpy's, PyTorch's or any other package's that speaks DLPack; none is copied. numpy has no bf16: arrays of
uint16 (or of ml_dtypes.bfloat16) hold its bits, see bf16() and f32()."""
import moec._openmp  # noqa: F401  before anything loads it
from moec.errors import CallError, CompileError, Error
from moec.kernels import Kernel, Module, Pair, Packed, jit, load, threads
from moec.routes import Route, route
from moec.tensors import bf16, f32
from moec.tuning import Case, Prediction, Ratio, Record, Score, compare, measure, predict, records, space

__version__ = "0.1.0"
__all__ = ["CallError", "Case", "CompileError", "Error", "Kernel", "Module", "Packed", "Pair", "Prediction", "Ratio", "Record",
           "Route", "Score", "bf16", "compare", "f32", "jit", "load", "measure", "predict", "records", "route", "space",
           "threads"]
