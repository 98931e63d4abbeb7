"""Memory of the package that the caller uses: numpy, or PyTorch if an argument is one of its tensors. Neither is imported
before it is needed."""
import sys


TORCH_FROM = "2.4"   # torch.library.register_autograd
_good = None         # the module torch that was found to have it


def is_new_enough(torch):
    global _good
    if torch is not _good:
        if not hasattr(getattr(torch, "library", None), "register_autograd"):
            return False
        _good = torch
    return True


def torch_of(values):
    """The module torch if one of the values is a tensor of it, else None. Refuses those of a PyTorch that is too old."""
    torch = sys.modules.get("torch")
    if torch is not None:
        for value in values:
            if isinstance(value, torch.Tensor):
                if not is_new_enough(torch):
                    raise RuntimeError(f"tensors of PyTorch are taken from version {TORCH_FROM} on, and this is {torch.__version__}")
                return torch
    return None


NUMPY = {"f32": "float32", "bf16": "uint16", "f16": "float16", "i32": "int32"}
TORCH = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i32": "int32", "u8": "uint8", "i64": "int64"}


def numpy_type(type, values):
    """bf16 is what the arguments have for it: uint16, or the type of ml_dtypes."""
    if type == "bf16" and "ml_dtypes" in sys.modules:
        for value in values:
            if str(getattr(value, "dtype", "")) == "bfloat16":
                return value.dtype
    return NUMPY.get(type, {"u8": "uint8", "i64": "int64"}.get(type))


def empty(shape, type, values):
    torch = torch_of(values)
    if torch is not None:
        return torch.empty(shape, dtype=getattr(torch, TORCH[type]))
    import numpy
    return numpy.empty(shape, numpy_type(type, values))


def bf16(array):
    """Floats as the bits of bf16, rounded to nearest even: uint16."""
    import numpy
    array = numpy.ascontiguousarray(array, numpy.float32)
    bits = array.view(numpy.uint32)
    rounded = ((bits + (0x7fff + (bits >> 16 & 1))) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(array), numpy.uint16(0x7fc0), rounded)


def f32(bits):
    """The bits of bf16 as floats."""
    import numpy
    bits = numpy.asarray(bits)
    if bits.dtype != numpy.uint16 and bits.dtype.name != "bfloat16":
        raise TypeError(f"the bits of bf16 are uint16 or ml_dtypes' bfloat16, not {bits.dtype}")
    return (bits.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
