"""What a kernel could be, what the model says of it, and how long it takes: the compiler's space, predict and measure."""
import json
from dataclasses import dataclass

from moec import _native
from moec.kernels import libmoec


@dataclass(frozen=True)
class Prediction:
    """Of one call: seconds by the model of the machine; operations of products of 16-bit operands, and others."""
    seconds: float
    flops_16bit: float
    flops: float


def work_of(path, kernel, sizes, routing, seed, threads):
    text = ", ".join(f"{name}={size}" for name, size in sizes.items()) if sizes else None
    return (str(path), None, kernel, text, routing, seed, threads)


def space(path, kernel=None, **options):
    """The knobs of a kernel's schedules with their legal values, the present one first (docs/tuning.md)."""
    return json.loads(_native.space(libmoec(), work_of(path, kernel, None, None, 0, 1), options))


def predict(path, kernel=None, *, sizes, routing=None, threads=1, **options):
    """What the model says of a call; options: machine="ascend910b2", schedule="schedule f { ... }" ..."""
    return Prediction(*_native.predict(libmoec(), work_of(path, kernel, sizes, routing, 1, threads), options))


def measure(path, kernel=None, *, sizes, routing=None, threads=1, schedules=(None,), rounds=11, seconds=1.0, seed=1,
            **options):
    """Seconds of a call on random data, one for each round, for each schedule (None: the usual one); they take turns."""
    return _native.measure(libmoec(), work_of(path, kernel, sizes, routing, seed, -threads), options, list(schedules),
                           rounds, seconds)
