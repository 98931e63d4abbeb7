"""What a kernel could be, what the model says of it, how long it takes, and what was learned: the compiler's space, predict,
case, measure, compare and records."""
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


@dataclass(frozen=True)
class Ratio:
    """How many times as long one takes as another: the median over the rounds, and the interval of the true one."""
    low: float
    ratio: float
    high: float


@dataclass(frozen=True)
class Score:
    """How far compiled code is from the interpreter: the largest error in units of its bound, and the elements compared."""
    worst: float
    compared: int
    doubtful: int
    sizes: str


@dataclass(frozen=True)
class Record:
    """What was learned of a schedule. state: tried, best, kept (the default, which nothing beat), failed or wrong; numbers that
    are not known are NaN. docs/tuning.md has the rest."""
    id: int
    content: str
    kernel: str
    target: str
    machine: str
    build: str
    sizes: str
    routing: str
    schedule: str
    why: str
    threads: int
    state: str
    seconds: float
    default_seconds: float
    ratio: float
    low: float
    high: float
    predicted: float
    rounds: int
    made: int


STATES = ("tried", "best", "kept", "failed", "wrong")


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


def compare(times, base, confidence=0.95):
    """How many times as long the first takes as the second, from lists of measure(), whose rounds are the same."""
    return Ratio(*_native.compare(libmoec(), list(times), list(base), confidence))


class Case:
    """A kernel at sizes, on random data, ready to be called."""

    def __init__(self, path, kernel=None, *, sizes, routing=None, threads=1, seed=1, **options):
        self._case, self.text, self.target, self.bytes = _native.case_new(
            libmoec(), work_of(path, kernel, sizes, routing, seed, -threads), options)

    def __repr__(self):
        return f"<moec case {self.text}; {self.target}>"

    def time(self, calls=1):
        """Seconds of so many calls together; on one thread those in which it had a core."""
        return _native.case_time(self._case, calls)

    def check(self):
        """Compares with the interpreter, at sizes at which that takes about a second; CallError names what differs."""
        return Score(*_native.case_check(self._case))

    def digest(self):
        """A hash of the bits of all results: schedules that keep bits have the same."""
        return _native.case_digest(self._case)


def records(path=None):
    """What was tuned, as the database has it (None: $MOE_TUNED, or beside the compile cache), in the order in which it was made."""
    return [Record(**dict(r, state=STATES[r["state"]])) for r in _native.records(libmoec(), None if path is None else str(path))]
