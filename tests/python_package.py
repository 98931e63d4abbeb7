#!/usr/bin/env python3
"""The Python package with numpy and anything else that speaks DLPack, from the build tree (PYTHONPATH).
usage: tests/python_package.py MOEC [unittest's arguments]"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

import numpy as np

import moec

MOEC = sys.argv.pop(1) if len(sys.argv) > 1 and __name__ == "__main__" else "build/bin/moec"

TEXT = """moe 1
dim T, K, E, H
group R : E rows T*K
group C : E capacity 2
kernel add(in a, b: f32[T], in s: f32, out y: f32[T]) { y[t] = s * a[t] + b[t] }
kernel two(in a: bf16[T], out y: bf16[T], out n: i32[T], out z: f32) {
  y[t] = bf16(2.0 * a[t])
  n[t] = i32(floor(f32(a[t])))
  z = sum(t) f32(a[t])
}
kernel repeat(in a: f32[T], out y: f32[T, K]) { y[t, k] = a[t] }
kernel pairs_of(in a: f32[T, 2], out y: f32[T]) { y[t] = a[t, 0] + a[t, 1] }
kernel heads(in a: f32[T*K], out y: f32[T, K]) { y[t, k] = a[t*K + k] }
kernel square(inout a: f32[T]) { a[t] = a[t] * a[t] }
kernel product(in x: bf16[T, H], in w: bf16[H, E] packed, out y: f32[T, E]) { y[t, e] = sum(h) x[t, h] * w[h, e] }
kernel rows(in x: f32[T, H], in rt: route[T, K -> R], in w: f32[E], out y: f32[T, H]) {
  r1[r, h] = x[rt.token(r), h] * w[@r]
  y[t, h] = sum(k) r1[rt.row(t, k), h]
}
kernel dispatch(in id: i32[T, K], in x: f32[T, H], out rt: route[T, K -> C], out y: f32[C, H]) {
  rt = route(id)
  y[r, h] = x[rt.token(r), h]
}
derive (add_fwd, add_bwd) from add wrt a, b +=
"""


class Wrapped:
    """A tensor of a package that has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **names):
        return self.array.__dlpack__(**names)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def floats(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.m = moec.jit(TEXT, "package.moe")

    def refuses(self, words, call, error=moec.CallError):
        with self.assertRaises(error) as caught:
            call()
        self.assertIn(words, str(caught.exception))
        return caught.exception

    # ---- calls ----

    def test_outputs_are_made_or_given(self):
        a, b = floats(5), floats(5)
        want = (np.float32(2) * a.astype(np.float64) + b).astype(np.float32)
        np.testing.assert_allclose(self.m.add(a, b, 2), want, rtol=1e-6)
        y = np.empty(5, np.float32)
        self.assertIs(self.m.add(a, b=b, s=2, y=y), y)
        np.testing.assert_allclose(y, want, rtol=1e-6)
        self.assertEqual(self.m["add"](a[:0], b[:0], 1).shape, (0,))

    def test_several_outputs_are_a_tuple(self):
        a = np.array([1.25, -2.5, 3], np.float32)
        y, n, z = self.m.two(moec.bf16(a))
        np.testing.assert_array_equal(moec.f32(y), 2 * a)
        self.assertEqual((y.dtype, n.dtype, z.dtype, z.shape), (np.uint16, np.int32, np.float32, ()))
        np.testing.assert_array_equal(n, [1, -3, 3])
        self.assertEqual(z, 1.75)

    def test_memory_is_not_copied(self):
        a = floats(6)
        want = a * a
        self.assertIsNone(self.m.square(a))
        np.testing.assert_array_equal(a, want)
        half = a[3:]
        self.m.square(half)
        np.testing.assert_array_equal(a, np.concatenate([want[:3], want[3:] * want[3:]]))

    def test_any_dlpack_tensor_is_taken(self):
        a, b = floats(4), floats(4)
        np.testing.assert_array_equal(self.m.add(Wrapped(a), b, 1), self.m.add(a, memoryview(b), 1))

    def test_dimensions_come_from_shapes_or_names(self):
        a = floats(3)
        np.testing.assert_array_equal(self.m.repeat(a, K=2), np.stack([a, a], 1))
        self.assertEqual(self.m.repeat(a, y=np.empty((3, 4), np.float32)).shape, (3, 4))
        self.refuses("shape of 'y' cannot be found: no argument's shape says K; write K=", lambda: self.m.repeat(a))
        self.refuses("'a' has 3 at axis 1, but its type says 2", lambda: self.m.pairs_of(np.ones((2, 3), np.float32)))
        self.refuses("'a' has 5 at axis 0, but T*K is that for no size T where K is 2",
                     lambda: self.m.heads(np.ones(5, np.float32), K=2))
        self.refuses("'a' has 3 at axis 0, but T is 2 here", lambda: self.m.repeat(a, T=2, K=2))

    def test_routes_are_made(self):
        ids, x = np.array([[0, 1], [0, 2], [0, 1]], np.int32), floats(3, 5)
        rt, y = self.m.dispatch(ids, x, E=3)
        want = moec.route(ids, 3, capacity=2)
        for made, other in zip(rt.tensors, want.tensors):
            np.testing.assert_array_equal(made, other)
        np.testing.assert_array_equal(y, [x[0], x[1], x[0], x[2], x[1], 0 * x[0]])
        given, _ = self.m.dispatch(ids, x, rt=rt)
        self.assertIs(given, rt)
        np.testing.assert_array_equal(self.m.rows(floats(3, 4), moec.route(ids, 3), np.ones(3, np.float32)).shape, (3, 4))
        self.refuses("the shape of 'rt' cannot be found: no argument's shape says E; write E=", lambda: self.m.dispatch(ids, x))
        self.refuses("route rt: a choice of id is 2, which is neither -1 nor an expert below 2", lambda: self.m.dispatch(ids, x, E=2))
        self.refuses("'rt' is a route, but the argument is of type int", lambda: self.m.dispatch(ids, x, rt=3))

    def test_packed_parameters(self):
        x, w = moec.bf16(floats(5, 40)), moec.bf16(floats(40, 3))
        p = self.m.product.pack("w", w)
        self.assertEqual(p.shape, (40, 3))
        np.testing.assert_array_equal(p.unpack(), w)
        np.testing.assert_allclose(self.m.product(x, p), moec.f32(x) @ moec.f32(w), rtol=1e-4, atol=1e-4)
        self.refuses("'w' is bf16, but", lambda: self.m.product.pack("w", floats(40, 3)))
        self.refuses("'w' is strided", lambda: self.m.product.pack("w", w.T))
        self.refuses("'w' has 2 axes", lambda: self.m.product.pack("w", w[0]))
        both = moec.jit("moe 1\ndim H, F\nkernel pack(in w: bf16[H, F], out q: bf16[H, F] packed both) { q[h, f] = w[h, f] }\n"
                        "kernel sums(in q: bf16[H, F] packed both, out y: f32[F]) { y[f] = sum(h) f32(q[h, f]) }\n")
        rows = moec.bf16(np.arange(35).reshape(5, 7))
        made = both.pack(rows)
        self.assertEqual((made.shape, made.memory.shape[0]), ((5, 7), both.sums.pack("q", rows).memory.shape[0]))
        np.testing.assert_array_equal(made.unpack(), rows)
        np.testing.assert_array_equal(both.sums(made), np.arange(35, dtype=np.float32).reshape(5, 7).sum(0))
        self.refuses("not packed", lambda: self.m.product.pack("x", x))
        self.refuses("bytes of packed memory", lambda: self.m.product._native.pack(1, (-1, 3, 40), w, np.empty(9, np.uint8)))
        self.refuses("'w' is packed, but the argument is of type ndarray", lambda: self.m.product(x, w))

    def test_a_shape_stands_for_what_is_not_read(self):
        d_y, d_b = floats(4), np.zeros(4, np.float32)
        self.assertFalse(self.m.add_bwd.params[0].read)
        np.testing.assert_array_equal(self.m.add_bwd((4,), floats(4), 2, d_y, d_b), 2 * d_y)
        self.refuses("'b' has 4 at axis 0, but T is 3", lambda: self.m.add_bwd((3,), floats(4), 2, d_y, d_b))
        self.refuses("'a' is a tensor, but the argument is of type tuple", lambda: self.m.add((4,), floats(4), 1))

    def test_wrong_arguments_are_named(self):
        a, b = floats(4), floats(4)
        self.refuses("'b' has 3 at axis 0, but T is 4", lambda: self.m.add(a, b[:3], 1))
        self.refuses("'a' is strided; only dense row-major tensors are taken (numpy.ascontiguousarray, .contiguous())",
                     lambda: self.m.add(floats(8)[::2], b, 1))
        self.refuses("'a' is strided", lambda: self.m.add(a[::-1], b, 1))
        self.refuses("'a' is f32, but its tensor is f64", lambda: self.m.add(a.astype(float), b, 1))
        self.refuses("'a' is f32, but its tensor is bool", lambda: self.m.add(a > 0, b, 1))
        self.refuses("'a' has 1 axes, but its tensor has 2", lambda: self.m.repeat(floats(2, 2), K=2))
        self.refuses("'a' has 1 axes", lambda: self.m.add(floats(2, 2), b, 1))
        self.refuses("'a' is a tensor, but the argument is of type list", lambda: self.m.add([1.0], b, 1))
        self.refuses("'s' is a scalar", lambda: self.m.add(a, b, "1"))
        self.refuses("misses 's'", lambda: self.m.add(a, b), TypeError)
        self.refuses("takes 3 arguments", lambda: self.m.add(a, b, 1, a), TypeError)
        self.refuses("'q'", lambda: self.m.add(a, b, 1, q=1), TypeError)
        self.refuses("overlap", lambda: self.m.add(a, b, 1, y=a))
        constant = floats(4)
        constant.flags.writeable = False
        self.m.add(constant, b, 1)
        self.refuses("square: 'a' cannot be used: buffer source array is read-only", lambda: self.m.square(constant), ValueError)
        self.refuses("the dimension K is a whole number, not 2.5", lambda: self.m.repeat(a, K=2.5), TypeError)
        self.refuses("K is -1; a size is at least 0", lambda: self.m.repeat(a, K=-1))
        self.refuses("add has no parameter 'q'", lambda: self.m.add.pack("q", a), TypeError)
        self.assertEqual(self.refuses("T", lambda: self.m.repeat(a, T=5, K=1)).status, 11)

    def test_arguments_are_released(self):
        a, b = floats(4), floats(4)
        bad = floats(3)
        before = [sys.getrefcount(v) for v in (a, b, bad)]
        for _ in range(50):
            self.m.add(a, Wrapped(b), 1)
            self.assertRaises(moec.CallError, self.m.add, a, bad, 1)
        self.assertEqual(before, [sys.getrefcount(v) for v in (a, b, bad)])

    def test_threads_and_processes(self):
        a, b = floats(1000), floats(1000)
        want, bad = self.m.add(a, b, 3), []
        work = [threading.Thread(target=lambda: [bad.append(1) for _ in range(50) if (self.m.add(a, b, 3) != want).any()])
                for _ in range(3)]
        [t.start() for t in work], [t.join() for t in work]
        self.assertFalse(bad)
        child = os.fork()
        if child == 0:
            os._exit(int((self.m.add(a, b, 3) != want).any()))
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_bits_of_bf16(self):
        values = np.array([1.5, -2.0, np.inf], np.float32)
        np.testing.assert_array_equal(moec.f32(moec.bf16(values)), values)
        for wrong in (values, values.astype(np.float16), np.zeros(2, np.int64)):
            self.refuses(f"not {wrong.dtype}", lambda: moec.f32(wrong), TypeError)

    # ---- routes ----

    def test_a_route_is_sorted_by_expert(self):
        ids = np.array([[2, 0], [0, 1], [-1, 0]])
        rt = moec.route(ids, 3)
        np.testing.assert_array_equal(rt.start, [0, 3, 4, 5])
        np.testing.assert_array_equal(rt.count, [3, 1, 1])
        np.testing.assert_array_equal(rt.slot_of, [1, 2, 5, 3, 0, -1])
        np.testing.assert_array_equal(rt.row_of, [[4, 0], [1, 3], [-1, 2]])
        x, w = floats(3, 4), floats(3)
        want = np.stack([sum(x[t] * w[e] for e in ids[t] if e >= 0) for t in range(3)])
        np.testing.assert_allclose(self.m.rows(x, rt, w), want, rtol=1e-5)
        same = moec.Route(*rt.tensors)
        np.testing.assert_array_equal(self.m.rows(x, same, w), self.m.rows(x, rt, w))
        for i, wrong in enumerate((rt.start[1:], rt.count.astype(np.int32), np.repeat(rt.slot_of, 2)[::2], rt.row_of[:, :1])):
            arrays = [*rt.tensors]
            arrays[i] = wrong
            self.refuses("is a dense tensor of", lambda: self.m.rows(x, moec.Route(*arrays), w), ValueError)
        self.refuses("'rt' has 3 at tokens, but T is 2", lambda: self.m.rows(x[:2], rt, w))
        self.refuses("is a route", lambda: self.m.rows(x, ids, w))
        self.refuses("choice 0 is expert 2, outside -1..1", lambda: moec.route(ids, 2), ValueError)
        self.refuses("outside -1..1", lambda: moec.route(np.array([[2**32]]), 2), ValueError)
        self.refuses("choice 3 is expert 1099511627776, outside -1..2", lambda: moec.route(np.array([[0, -1], [2, 2**40]]), 3), ValueError)
        self.refuses("choice 0 is expert 18446744073709551615", lambda: moec.route(np.array([[2**64 - 1]], np.uint64), 3), ValueError)
        for experts in (-1, 2**62):
            self.refuses(f"experts is {experts}; it is from 0 to 2147483647", lambda: moec.route(ids, experts), ValueError)
        self.refuses("of 3 experts; a route has at most 2147483647 rows", lambda: moec.route(ids, 3, capacity=2**62), ValueError)
        for type in (np.uint32, np.uint64):
            self.refuses("outside -1..1", lambda: moec.route(np.array([[2**32 - 1]], type), 2), ValueError)
        self.refuses("ids are whole numbers, not float64", lambda: moec.route(np.array([[0.5]]), 2), TypeError)
        self.refuses("ids are a tensor of numpy or PyTorch, such as numpy.array([[0, 1]]), not a list",
                     lambda: moec.route([[0, 1]], 2), TypeError)
        self.refuses("capacity is -5", lambda: moec.route(np.array([[0]]), 2, capacity=-5), ValueError)

    def test_a_capacity_drops_choices(self):
        rt = moec.route(np.array([[0], [0], [1], [0]]), 2, capacity=2)
        np.testing.assert_array_equal(rt.row_of, [[0], [1], [2], [-1]])
        np.testing.assert_array_equal(rt.slot_of, [0, 1, 2, -1])
        np.testing.assert_array_equal(rt.start, [0, 2, 4])

    def test_an_old_pytorch(self):
        class Tensor:
            shape, requires_grad = (2, 2), False
        old, a = types.SimpleNamespace(Tensor=Tensor, __version__="1.13.1", library=None), floats(2)
        with unittest.mock.patch.dict(sys.modules, {"torch": old}):
            says = "tensors of PyTorch are taken from version 2.4 on, and this is 1.13.1"
            self.refuses(says, lambda: moec.route(Tensor(), 2), RuntimeError)
            self.refuses(says, lambda: self.m.square(Tensor()), RuntimeError)
            self.refuses(says, lambda: self.m.add(a, a, s=Tensor()), RuntimeError)
            np.testing.assert_array_equal(self.m.add(a, a, 1), a + a)
            moec.route(np.array([[0]]), 1)

    # ---- modules ----

    def test_a_module_describes_itself(self):
        self.assertEqual(self.m.add.__doc__, "add(a: f32[T], b: f32[T], s: f32) -> y: f32[T]")
        self.assertIn("repeat", dir(self.m))
        self.assertRaises(AttributeError, lambda: self.m.nothing)
        pair, = self.m.pairs
        self.assertEqual((pair.origin, pair.forward, pair.backward, pair.cotangents),
                         ("add", "add_fwd", "add_bwd", {"y": "d_y"}))
        self.assertEqual([g["mode"] for g in pair.gradients], ["write", "add"])
        a, b, d_y, d_b = floats(4), floats(4), floats(4), np.ones(4, np.float32)
        d_a = self.m.add_bwd(a, b, 3, d_y, d_b)
        np.testing.assert_array_equal(d_a, 3 * d_y)
        np.testing.assert_array_equal(d_b, 1 + d_y)

    def test_the_manifest_is_documented(self):
        with open("docs/manifest.md", encoding="utf-8") as f:
            page = f.read()

        def keys(value):
            for v in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
                yield from keys(v)
            yield from value if isinstance(value, dict) else ()
        for m in (self.m, moec.load("examples/moe_ffn.moe")):
            for key in set(keys(m.manifest)):
                self.assertTrue(f"`{key}`" in page or f'"{key}"' in page, key)

    def test_the_page_about_python_holds(self):
        with open("docs/python.md", encoding="utf-8") as f:
            example = f.read().split("```python\n")[1].partition("```")[0]
        names = {}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(example, names)
        doc = example.rpartition("# ")[2].strip().split("...")
        self.assertTrue(out.getvalue().startswith(doc[0]) and out.getvalue().strip().endswith(doc[1].lstrip(",)")), out.getvalue())
        self.assertEqual(names["y"].shape, (33, 256))

    def test_errors_have_file_and_line(self):
        e = self.refuses("wrong.moe:2:20", lambda: moec.jit("moe 1\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] }",
                                                            "wrong.moe"), moec.CompileError)
        self.assertEqual((e.diagnostics[0]["line"], e.diagnostics[0]["column"]), (2, 20))
        self.refuses("/no/such.moe", lambda: moec.load("/no/such.moe"), moec.CompileError)
        self.refuses("/no/such.so", lambda: moec.load("/no/such.so"), moec.CompileError)
        self.refuses("the text of a program, not PosixPath", lambda: moec.jit(pathlib.Path("k.moe")), TypeError)
        self.refuses("/no/such.moe", lambda: moec.load(b"/no/such.moe"), moec.CompileError)
        self.refuses("no option 'optimise'", lambda: moec.jit(TEXT, optimise=1), TypeError)
        self.refuses("no option 'targt'; did you mean 'target'", lambda: moec.jit(TEXT, targt="host"), TypeError)
        self.refuses("the option 'target' is a text, not 3", lambda: moec.jit(TEXT, target=3), TypeError)
        self.refuses("the option 'schedule_seed' is a whole number", lambda: moec.jit(TEXT, schedule_seed=-1), TypeError)

    def test_options(self):
        m = moec.jit(TEXT, kernels="square", derive="derive (f, b) from rows wrt x")
        self.assertIn("b", m.kernels)
        self.refuses("add has no code", lambda: m.add(floats(2), floats(2), 1))

    def test_the_interpreter(self):
        m, a, b = moec.jit(TEXT, interpret=True), floats(4), floats(4)
        np.testing.assert_array_equal(m.add(a, b, 2), self.m.add(a, b, 2))
        self.refuses("'b' has 3 at axis 0, but T is 4", lambda: m.add(a, b[:3], 1))

    def test_every_option_of_the_header_is_taken(self):
        with open("include/moec/moec.h", encoding="utf-8") as f:
            struct = re.search(r"typedef struct moec_options \{(.*?)\} moec_options", f.read(), re.S).group(1)
        fields = re.findall(r"^    (const char \*|int |uint64_t )(\w+);", struct, re.M)
        self.assertGreater(len(fields), 10)
        for kind, name in fields:
            moec.jit(TEXT, **{name: {"int ": 0, "uint64_t ": 0}.get(kind)})

    def test_a_library_needs_no_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            text, library = f"{folder}/k.moe", f"{folder}/k.so"
            with open(text, "w", encoding="utf-8") as f:
                f.write(TEXT)
            subprocess.run([MOEC, text, "-o", library], check=True)
            program = ("import sys, moec, numpy as np; m = moec.load(sys.argv[1]); a = np.ones(3, np.float32)\n"
                       "assert (m.add(a, a, 2) == 3).all() and m.pairs[0].forward == 'add_fwd'\n"
                       "assert 'libmoec' not in open('/proc/self/maps').read()")
            subprocess.run([sys.executable, "-c", program, library], check=True,
                           env={**os.environ, "MOEC_LIBRARY": "/no/such/library"})

    def test_schedules_are_predicted_and_measured(self):
        path, sizes = "examples/moe_ffn.moe", {"T": 32, "K": 2, "E": 3, "H": 64, "F": 64}
        space = moec.space(path, "ffn")
        knob = next(k for k in space["knobs"] if k["knob"].startswith("tile g : M"))
        schedules = [None, "schedule ffn { " + knob["values"][1]["clause"] + " }"]
        usual, other = moec.measure(path, "ffn", sizes=sizes, schedules=schedules, rounds=4, seconds=0.01)
        self.assertEqual(len(usual), len(other))
        self.assertTrue(all(s > 0 for s in usual + other))
        said = moec.predict(path, "ffn", sizes=sizes, routing="zipf(1.2)")
        self.assertTrue(said.seconds > 0 and (said.flops_16bit or said.flops) >= 3 * 2 * 64 * 64 * 64)
        with self.assertRaisesRegex(moec.CompileError, "F of kernel ffn: no size"):
            moec.predict(path, "ffn", sizes={"T": 1, "K": 1, "E": 1, "H": 16})
        with self.assertRaises(ValueError):
            moec.measure(path, "ffn", sizes=sizes, schedules=[])

    def test_cases_are_compared_and_records_read(self):
        path, sizes = "examples/rmsnorm.moe", {"T": 32, "H": 64}
        case = moec.Case(path, "rmsnorm", sizes=sizes)
        self.assertEqual((case.text, case.bytes), ("rmsnorm T=32 H=64", 2 * 2 * 32 * 64 + 4 * 64))
        self.assertGreater(case.time(3), 0)
        self.assertLessEqual(case.check().worst, 1)
        self.assertEqual(case.digest(), moec.Case(path, "rmsnorm", sizes=sizes, schedule="schedule rmsnorm { strip y : lanes = 64 }").digest())
        self.assertNotEqual(case.digest(), moec.Case(path, "rmsnorm", sizes=sizes, seed=2).digest())
        with self.assertRaisesRegex(moec.CompileError, "H of kernel rmsnorm: no size"):
            moec.Case(path, "rmsnorm", sizes={"T": 32})
        r = moec.compare([2.0, 2.2, 2.1, 1.9, 2.0, 2.0, 2.3], [1.0] * 7)
        self.assertTrue(r.low == 1.9 and r.ratio == 2.0 and r.high == 2.3)
        with self.assertRaisesRegex(ValueError, "1 and 2"):
            moec.compare([1.0], [1.0, 2.0])
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(moec.CompileError):
                moec.records(f"{folder}/none.db")
            subprocess.run([MOEC, "tune", f"{path}:rmsnorm", "--sizes", "T=32,H=64", "--by", "npu:ascend910b2", "--budget", "15s",
                            "--db", f"{folder}/t.db"], check=True, stdout=subprocess.DEVNULL)
            found = moec.records(f"{folder}/t.db")
            self.assertEqual({(f.kernel, f.sizes, f.machine, f.threads) for f in found}, {("rmsnorm", "T=32 H=64", "ascend910b2", 1)})
            self.assertTrue({f.state for f in found} <= {"tried", "best", "kept"} and found[-1].state in ("best", "kept"))

    def test_nothing_is_imported_without_need(self):
        program = "import sys, moec; m = moec.load('examples/rmsnorm.moe'); print([n for n in ('numpy', 'torch') if n in sys.modules])"
        found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        self.assertEqual(found.stdout, "[]\n")


if __name__ == "__main__":
    unittest.main()
