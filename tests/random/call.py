"""Calls compiled kernels through their C functions (section 11 of docs/language.md), each program in a child process:
a crash or a hang ends the child only. Every tensor stands between two pages that nobody may touch, beside one of them, and a
pattern on its other side; results come back through memory that parent and child share."""
import ctypes
import mmap
import os
import signal

import numpy as np

from data import NUMPY, decode, encode
from places import extent_of, shape_of

PAGE = mmap.PAGESIZE
PATTERN, GARBAGE = 0xA5, 0x7B
libc = ctypes.CDLL(None, use_errno=True)
LIBMOEC = None


class Context(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int32), ("status", ctypes.c_int32), ("work", ctypes.c_void_p),
                ("work_bytes", ctypes.c_int64), ("message", ctypes.c_char_p)]


class RouteStruct(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("tokens", "choices", "groups", "rows")] + \
               [(name, ctypes.c_void_p) for name in ("start", "count", "slot_of", "row_of")]


IDLE = 20     # times longer than its limit may a call wait


class Options(ctypes.Structure):
    _fields_ = [("target", ctypes.c_char_p), ("no_optimize", ctypes.c_int), ("debug", ctypes.c_int),
                ("no_cache", ctypes.c_int), ("cache_dir", ctypes.c_char_p), ("interpret", ctypes.c_int),
                ("schedule", ctypes.c_char_p), ("machine", ctypes.c_char_p), ("schedule_seed", ctypes.c_uint64),
                ("types", ctypes.c_char_p), ("derive", ctypes.c_char_p), ("kernels", ctypes.c_char_p),
                ("jit_names", ctypes.c_int), ("tuned_for", ctypes.c_char_p),
                ("tuned_threads", ctypes.c_int)]


class Block:
    """Bytes in shared memory between two pages of nothing: at the end of what lies between them, or at its begin."""

    def __init__(self, arena, data, at_begin=False):
        self.bytes = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        n = len(self.bytes)
        pages = (n + 64 + PAGE - 1) // PAGE
        self.arena, self.first = arena, arena.take(pages + 2) + PAGE
        self.last = self.first + pages * PAGE
        self.at = self.first if at_begin else self.last - n
        self.end = self.at + n
        arena.memory[self.first:self.last] = PATTERN
        arena.memory[self.at:self.end] = self.bytes

    def protect(self):
        for page in (self.first - PAGE, self.last):
            libc.mprotect(ctypes.c_void_p(self.arena.address + page), ctypes.c_size_t(PAGE), 0)

    @property
    def address(self):
        return self.arena.address + self.at

    def now(self, dtype, shape):
        return np.frombuffer(self.arena.memory[self.at:self.end].tobytes(), dtype).reshape(shape)

    def changed(self):
        return (self.arena.memory[self.at:self.end] != self.bytes).any()

    def spilled(self):
        return (self.arena.memory[self.first:self.at] != PATTERN).any() or (self.arena.memory[self.end:self.last] != PATTERN).any()


class Arena:
    def __init__(self, megabytes=96):
        self.map = mmap.mmap(-1, megabytes << 20)
        self.memory = np.frombuffer(self.map, np.uint8)
        self.address = self.memory.ctypes.data
        self.used = PAGE

    def take(self, pages):
        first = self.used
        self.used += pages * PAGE
        if self.used > len(self.memory):
            raise MemoryError("arena")
        return first


ROUTE_FIELDS = (("start", np.int64), ("count", np.int64), ("slot_of", np.int32), ("row_of", np.int32))


class Argument:
    """One parameter's memory."""

    def __init__(self, arena, module, p, case, at_begin):
        self.p, self.at_begin = p, at_begin
        self.blocks = {}
        if p.elem == "route":
            self.make_route(arena, module, p, case)
            return
        self.shape = shape_of(p, module, case.dims)
        if p.role == "out":
            value = np.full(int(np.prod(self.shape)) * NUMPY[p.elem]().itemsize, GARBAGE, np.uint8)
        else:
            value = encode(p.elem, case.tensors[p.name])
        self.blocks["data"] = Block(arena, value, at_begin)

    def make_route(self, arena, module, p, case):
        if p.role == "in":
            r = case.routes[p.name]
            self.sizes = (r.tokens, r.choices, r.groups, r.rows)
            values = {f: getattr(r, f) for f, _ in ROUTE_FIELDS}
        else:
            t, k = (extent_of(a, module, case.dims) for a in p.axes[:2])
            group = module.group(p.axes[2])
            self.sizes = (t, k, extent_of(group.groups, module, case.dims), extent_of(p.axes[2], module, case.dims))
            counts = (self.sizes[2] + 1, self.sizes[2], self.sizes[3], t * k)
            values = {f: np.full(n, 0x7b7b7b7b, kind) for (f, kind), n in zip(ROUTE_FIELDS, counts)}
        for f, kind in ROUTE_FIELDS:
            self.blocks[f] = Block(arena, np.asarray(values[f], kind), self.at_begin)

    def value(self):
        """What stands in a tensor now."""
        return decode(self.p.elem, self.blocks["data"].now(NUMPY[self.p.elem], self.shape))

    def route_value(self):
        return {f: self.blocks[f].now(kind, -1) for f, kind in ROUTE_FIELDS}


class Call:
    """One call: a kernel, its sizes and memory; `threads` as in moe_ctx; `interpret`: by the reference interpreter."""

    def __init__(self, arena, module, name, params, case, threads, interpret):
        self.name, self.params, self.case = name, params, case
        self.threads, self.interpret = threads, interpret
        self.arguments = [Argument(arena, module, p, case, at_begin=threads != -1) for p in params]
        self.reply = Block(arena, np.zeros(1024, np.uint8))   # status, packed memory's pattern broken, then the text

    @property
    def status(self):
        return int(self.reply.now(np.int32, -1)[0])

    @property
    def spilled(self):
        return int(self.reply.now(np.int32, -1)[1]) != 0 or any(b.spilled() for a in self.arguments for b in a.blocks.values())

    @property
    def message(self):
        return bytes(self.reply.now(np.uint8, -1)[16:]).split(b"\0")[0].decode(errors="replace")


# ---- in the child ----

def load_moec(path):
    global LIBMOEC
    m = LIBMOEC = ctypes.CDLL(path)
    m.moec_context_new.restype = m.moec_module_kernel.restype = ctypes.c_void_p
    m.moec_kernel_dim_name.restype = ctypes.c_char_p
    m.moec_error_text.restype = ctypes.c_char_p
    m.moec_kernel_params.restype = m.moec_kernel_dims.restype = ctypes.c_size_t
    m.moec_kernel_param_bytes.restype = ctypes.c_int64
    m.moec_kernel_param_name.restype = ctypes.c_char_p
    return m


def interpreter(m, source):
    """The module for the interpreter; it knows the dimensions and packs parameters for compiled code too."""
    c, out = m.moec_context_new(), ctypes.c_void_p()
    options = Options(interpret=1, no_cache=1)
    if m.moec_compile_text(ctypes.c_void_p(c), b"random.moe", source.encode(), ctypes.c_size_t(len(source.encode())),
                           ctypes.byref(options), ctypes.byref(out)):
        raise RuntimeError(m.moec_error_text(ctypes.c_void_p(c)).decode())
    return out


class Packed:
    """The packed copy of a row-major argument, between two patterns."""

    def __init__(self, m, kernel, i, dims, argument):
        self.m, self.kernel, self.i, self.dims, self.argument = m, kernel, i, dims, argument
        n = m.moec_kernel_param_bytes(kernel, ctypes.c_size_t(i), dims)
        self.memory = np.full(n + 256, PATTERN, np.uint8)
        self.at = -self.memory.ctypes.data % 64 + 64
        self.n = n
        self.memory[self.at:self.at + n] = GARBAGE
        if argument.p.role != "out":
            status = m.moec_kernel_pack(kernel, ctypes.c_size_t(i), dims, ctypes.c_void_p(argument.blocks["data"].address),
                                        ctypes.c_void_p(self.address))
            assert status == 0, f"pack: {status}"

    @property
    def address(self):
        return self.memory.ctypes.data + self.at

    def take_back(self):
        status = self.m.moec_kernel_unpack(self.kernel, ctypes.c_size_t(self.i), self.dims, ctypes.c_void_p(self.address),
                                           ctypes.c_void_p(self.argument.blocks["data"].address))
        assert status == 0, f"unpack of {self.argument.p.name}: {status}"

    def spilled(self):
        return (self.memory[:self.at] != PATTERN).any() or (self.memory[self.at + self.n:] != PATTERN).any()


def pointers(call, m, kernel, dims):
    out, keep = [], []
    for i, a in enumerate(call.arguments):
        if a.p.elem == "route":
            s = RouteStruct(*a.sizes, *(a.blocks[f].address for f, _ in ROUTE_FIELDS))
            keep.append(s)
            out.append(ctypes.addressof(s))
        elif a.p.packed:
            p = Packed(m, kernel, i, dims, a)
            keep.append(p)
            out.append(p.address)
        else:
            out.append(a.blocks["data"].address)
    return out, keep


SCALARS = {"f32": ctypes.c_float, "bf16": ctypes.c_uint16, "f16": ctypes.c_uint16, "i32": ctypes.c_int32}


def c_call(lib, call, ctx, sizes, addresses):
    arguments = [ctypes.byref(ctx), *(ctypes.c_int64(n) for n in sizes)]
    for a, address in zip(call.arguments, addresses):
        if a.p.elem != "route" and a.p.role == "in" and not a.p.axes:
            arguments.append(SCALARS[a.p.elem].from_address(address))
        else:
            arguments.append(ctypes.c_void_p(address))
    return getattr(lib, call.name)(*arguments)


def one_call(m, module, lib, call):
    kernel = ctypes.c_void_p(m.moec_module_kernel(module, call.name.encode()))
    assert kernel.value, f"no kernel {call.name}"
    names = [m.moec_kernel_dim_name(kernel, ctypes.c_size_t(i)).decode() for i in range(m.moec_kernel_dims(kernel))]
    got = [m.moec_kernel_param_name(kernel, ctypes.c_size_t(i)).decode() for i in range(m.moec_kernel_params(kernel))]
    assert got == [p.name for p in call.params], f"{call.name} takes {got}, not {[p.name for p in call.params]}"
    sizes = [call.case.dims[n] for n in names]
    dims = (ctypes.c_int64 * (len(sizes) + 1))(*sizes)
    addresses, keep = pointers(call, m, kernel, dims)
    text = ctypes.create_string_buffer(512)
    ctx = Context(threads=call.threads, message=ctypes.cast(text, ctypes.c_char_p))
    if call.interpret:
        args = (ctypes.c_void_p * (len(addresses) + 1))(*addresses)
        status = m.moec_kernel_interpret(kernel, ctypes.byref(ctx), dims, args)
    else:
        status = c_call(lib, call, ctx, sizes, addresses)
    packed = [k for k in keep if isinstance(k, Packed)]
    for p in packed:
        if status == 0 and p.argument.p.role != "in":
            p.take_back()
    reply = np.zeros(1024, np.uint8)
    reply[:8] = np.array([status, any(p.spilled() for p in packed)], np.int32).view(np.uint8)
    reply[16:16 + 512] = np.frombuffer(text.raw, np.uint8)
    call.reply.arena.memory[call.reply.at:call.reply.end] = reply


def child(libmoec, library, source, calls, progress, seconds):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    m = load_moec(libmoec)
    module = interpreter(m, source)
    lib = ctypes.CDLL(library) if library else None
    for call in calls:
        for block in [call.reply] + [b for a in call.arguments for b in a.blocks.values()]:
            block.protect()
    for n, call in enumerate(calls):
        progress[0] = n
        signal.setitimer(signal.ITIMER_PROF, seconds)     # of processor time: on a busy machine a call takes longer
        signal.alarm(IDLE * seconds)
        one_call(m, module, lib, call)
    progress[0] = len(calls)


def run_calls(arena, libmoec, library, source, calls, environment, seconds=10):
    """Runs the calls in a child; (None, None), or the call that did not come back and how it ended."""
    block = Block(arena, np.zeros(4096, np.uint8))
    progress = arena.memory[block.at:block.at + 8].view(np.int64) if block.at % 8 == 0 else None
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.environ.update(environment)
            child(libmoec, library, source, calls, progress, seconds)
            code = 0
        except BaseException as e:     # noqa: B902: the child only reports
            message = repr(e).encode()[:2000]
            arena.memory[block.at + 8:block.at + 8 + len(message)] = np.frombuffer(message, np.uint8)
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return None, None
    n = int(progress[0])
    text = bytes(arena.memory[block.at + 8:block.end]).split(b"\0")[0].decode(errors="replace")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        text = {"SIGALRM": f"no end after {IDLE * seconds} s", "SIGPROF": f"no end after {seconds} s of work"}.get(name) or \
            f"killed by {name}"
    return calls[min(n, len(calls) - 1)], text
