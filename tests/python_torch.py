#!/usr/bin/env python3
"""The Python package with PyTorch: tensors without a copy, gradients against PyTorch's own, torch.compile, a worker of a
DataLoader. Ends with 77 where PyTorch is not installed. usage: tests/python_torch.py [unittest's arguments]"""
import importlib.util
import pickle
import sys
import unittest

try:
    import torch
except ImportError:
    torch = None
if torch is None or not hasattr(torch.library, "register_autograd"):
    print("python_torch: PyTorch 2.4 or later is not installed here: nothing is tested")
    sys.exit(77)

import moec
from moec import autograd

TEXT = """moe 1
dim T, K, E, H, F
group R : E rows T*K
kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],
           in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {
  xp[r, h] = x[rt.token(r), h]
  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]
  u[r, f]  = sum(h) xp[r, h] * wu[@r, h, f]
  a[r, f]  = bf16(silu(g[r, f]) * u[r, f])
  o[r, h]  = sum(f) a[r, f] * wd[@r, f, h]
  y[t, h]  = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])
}
derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg +=, wu +=, wd +=
kernel parts(in a, b: f32[T], in s: f32, out y, z: f32[T]) { y[t] = s * a[t] * b[t]   z[t] = exp(a[t]) }
derive (parts_fwd, parts_bwd) from parts wrt a, b
kernel residual(in x: f32[T, F], in a: bf16[T, H], in wg, wu: bf16[H, F], out y: f32[T, F]) {
  g[t, f] = sum(h) a[t, h] * wg[h, f]
  u[t, f] = sum(h) a[t, h] * wu[h, f]
  y[t, f] = x[t, f] + silu(g[t, f]) * u[t, f]
}
derive (residual_fwd, residual_dx, residual_dw) from residual wrt x pass, a as f32 then wg +=, wu
kernel product(in x: bf16[T, H], in w: bf16[H, F] packed both, out y: f32[T, F]) { y[t, f] = sum(h) x[t, h] * w[h, f] }
derive (product_fwd, product_bwd) from product wrt x, w +=
kernel pack(in w: bf16[H, F], out q: bf16[H, F] packed both) { q[h, f] = w[h, f] }
kernel copies(in a: f32[T], out y: f32[T, K]) { y[t, k] = a[t] * a[t] }
derive (copies_fwd, copies_bwd) from copies wrt a
kernel scaled(in a: f32[T], inout n: f32[T], out y: f32[T]) { y[t] = 2.0 * a[t]   n[t] += a[t] }
"""
T, K, E, H, F = 33, 2, 5, 64, 48
m = moec.jit(TEXT, "torch.moe")


def experts(x, ids, p, wg, wu, wd):
    """The expert block in PyTorch, token by token of each expert."""
    y = torch.zeros(x.shape, dtype=torch.float32)
    for e in range(E):
        t, k = torch.where(ids == e)
        a = (torch.nn.functional.silu(x[t] @ wg[e]) * (x[t] @ wu[e])).to(torch.bfloat16).to(x.dtype)
        y = y.index_add(0, t, (p[t, k, None] * (a @ wd[e])).float())
    return y


def arguments():
    g = torch.Generator().manual_seed(3)
    def bf16(*shape, scale=1.0):
        return (torch.randn(shape, generator=g) * scale).to(torch.bfloat16).requires_grad_()
    ids = torch.stack([torch.randperm(E - 1, generator=g)[:K] for _ in range(T)])   # the last expert gets no token
    p = torch.rand((T, K), generator=g).requires_grad_()
    return bf16(T, H), ids, p, bf16(E, H, F, scale=0.1), bf16(E, H, F, scale=0.1), bf16(E, F, H, scale=0.1)


def close(got, want, share=0.02):
    """Within a share of the largest value: two ways to round bf16."""
    error, largest = (got.float() - want.float()).abs().max(), want.abs().max()
    assert error <= share * largest, f"{error} of {largest}"


class Torch(unittest.TestCase):
    def test_tensors_are_not_copied(self):
        a, b = torch.randn(7), torch.randn(7)
        y, z = m.parts(a, b, 2)
        torch.testing.assert_close(y, 2 * a * b)
        torch.testing.assert_close(z, a.exp())
        n, out = torch.ones(7), torch.empty(7)
        self.assertIs(m.scaled(a, n, y=out), out)
        torch.testing.assert_close(n, 1 + a)
        self.assertEqual(m.ffn(*self.direct()).dtype, torch.bfloat16)
        with self.assertRaisesRegex(moec.CallError, "'a' is strided"):
            m.parts(torch.randn(14)[::2], b, 2)

    def test_signs_that_pytorch_has_not_applied(self):
        """Of a tensor with the negative bit, memory has the values with the other sign."""
        a, b = torch._neg_view(torch.ones(3)), torch.ones(3)
        self.assertTrue(a.is_neg())
        for call in (lambda: m.parts(a, b, 2), lambda: m.scaled(b, a)):
            with self.assertRaisesRegex(moec.CallError, "cannot be used: .*negative bit.*resolve_neg"):
                call()
        torch.testing.assert_close(m.parts(a.resolve_neg(), b, 2)[0], torch.full((3,), -2.0))

    def test_outputs_are_tensors_like_others(self):
        a, b = torch.randn(5), torch.nn.Parameter(torch.randn(5))
        with torch.inference_mode():
            self.assertTrue(m.parts(a, b, 2)[0].is_inference())
        for other in (b, b.detach().numpy()):
            with torch.no_grad():
                y = m.parts(a, other, 2)[0]
            self.assertIs(type(y), torch.Tensor)
            self.assertEqual((y.is_contiguous(), y.requires_grad, y.data_ptr() % 64), (True, False, 0))
            torch.testing.assert_close(pickle.loads(pickle.dumps(y)), 2 * a * b.detach())
        self.assertEqual(m.parts(a[:0], a[:0], 2)[1].shape, (0,))
        views = [m.parts(a, a, 2)[0][1:] for _ in range(1000)]      # memory lives as long as its views
        for v in views:
            torch.testing.assert_close(v, (2 * a * a)[1:])

    @staticmethod
    def direct():
        x, ids, p, *w = (v.detach() for v in arguments())
        return x, moec.route(ids, E), p, *w

    def test_gradients_are_those_of_pytorch(self):
        got, want = arguments(), arguments()
        x, ids, p, *w = got
        y = m.ffn(x, moec.route(ids, E), p, *w)
        ours = y.float().square().sum()
        floats = [v if v is want[1] else v.detach().float().requires_grad_() for v in want]
        z = experts(*floats)
        close(y, z)
        ours.backward()
        z.to(torch.bfloat16).float().square().sum().backward()
        for a, b in zip(got, floats):
            if a is not ids:
                self.assertEqual((a.grad.dtype, a.grad.shape), (a.dtype, a.shape))
                close(a.grad, b.grad)
        self.assertEqual(w[0].grad[E - 1].abs().max(), 0)

    def test_the_page_about_python_holds(self):
        with open("docs/python.md", encoding="utf-8") as f:
            example = f.read().split("```python\n")[2].partition("```")[0]
        _, ids, p, *w = arguments()
        names = {"torch": torch, "moec": moec, "m": m, "ids": ids, "p": p, **dict(zip(("wg", "wu", "wd"), w)),
                 "T": T, "H": H, "E": E}
        exec(example, names)
        self.assertEqual(names["x"].grad.shape, (T, H))
        self.assertGreater(w[0].grad.abs().max(), 0)

    def test_an_output_that_is_not_used_has_no_cotangent(self):
        a, b = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
        y, z = m.parts(a, b, 3.0)
        y.sum().backward()
        torch.testing.assert_close(a.grad, 3 * b.detach())
        torch.testing.assert_close(b.grad, 3 * a.detach())
        a.grad = None
        m.parts(a, b.detach(), 3.0)[1].sum().backward()
        torch.testing.assert_close(a.grad, a.detach().exp())

    def test_two_backward_kernels_and_a_gradient_that_is_passed(self):
        g = torch.Generator().manual_seed(5)
        x = torch.randn((T, F), generator=g).requires_grad_()
        a, wg, wu = ((torch.randn(s, generator=g) * c).to(torch.bfloat16).requires_grad_()
                     for s, c in (((T, H), 1), ((H, F), 0.1), ((H, F), 0.1)))
        floats = [v.detach().float().requires_grad_() for v in (x, a, wg, wu)]
        m.residual(x, a, wg, wu).square().sum().backward()
        want = floats[0] + torch.nn.functional.silu(floats[1] @ floats[2]) * (floats[1] @ floats[3])
        want.square().sum().backward()
        for got, f in zip((x, a, wg, wu), floats):
            self.assertEqual(got.grad.dtype, got.dtype)
            close(got.grad, f.grad)
        self.assertEqual([k.name for k in m.residual.operators.pairs[0].backwards], ["residual_dx", "residual_dw"])

    def test_packed_weights_are_rows_to_autograd(self):
        x, w = (torch.randn(s).to(torch.bfloat16).requires_grad_() for s in ((T, H), (H, F)))
        y = m.product(x, w)
        y.square().sum().backward()
        d_y = (2 * y).detach().to(torch.bfloat16).float()
        close(x.grad, d_y @ w.detach().float().T)
        close(w.grad, x.detach().float().T @ d_y)
        packed = m.product.pack("w", w.detach())
        with torch.no_grad():
            self.assertTrue(torch.equal(m.product(x, packed), y))

    def test_weights_that_are_packed_once(self):
        x, w = (torch.randn(s).to(torch.bfloat16).requires_grad_() for s in ((T, H), (H, F)))
        (m.product(x, w) ** 2).sum().backward()
        want, x.grad, w.grad = (x.grad, w.grad), None, None
        frozen, kept = m.product.pack("w", w.detach()), m.product.pack("w", w)
        (m.product(x, frozen) ** 2).sum().backward()
        self.assertTrue(torch.equal(x.grad, want[0]) and w.grad is None)
        x.grad = None
        (m.product(x, kept) ** 2).sum().backward()
        self.assertTrue(torch.equal(x.grad, want[0]) and torch.equal(w.grad, want[1]))
        with torch.no_grad():
            w *= 2
        with self.assertRaisesRegex(RuntimeError, "the rows of 'w' changed since they were packed"):
            m.product(x, kept)
        kept.repack()
        y = m.product(x, kept)
        self.assertTrue(torch.equal(y, m.product(x, w)))
        with torch.no_grad():
            w *= 2
        kept.repack()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        with self.assertRaisesRegex(TypeError, "pack it anew"):
            frozen.repack()

    def test_packed_results(self):
        x, w = (torch.randn(s).to(torch.bfloat16) for s in ((T, H), (H, F)))
        def both(x, w):
            return m.product(x, m.pack(w))
        want = m.product(x, w.clone().requires_grad_()).detach()
        self.assertTrue(torch.equal(both(x, w), want))
        self.assertTrue(torch.equal(torch.compile(both, backend="aot_eager", fullgraph=True)(x, w), want))
        self.assertTrue(torch.equal(m.pack(w).unpack(), w))
        with self.assertRaisesRegex(TypeError, "is packed and carries none"):
            m.pack(w.requires_grad_())

    def test_sizes_that_no_shape_tells(self):
        def loss(a, n):
            return (m.copies(a, K=n) * 0.5).sum()
        a = torch.randn(5, requires_grad=True)
        for compiled in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
            a.grad = None
            compiled(a, 3).backward()
            torch.testing.assert_close(a.grad, 3 * a.detach())
        with self.assertRaisesRegex(TypeError, "no shape tells the size K: give K="):
            m.copies(a)
        with self.assertRaisesRegex(moec.CallError, "T is 7, but shapes say 5"):
            m.copies(a, K=2, T=7)

    def test_what_a_kernel_writes_counts_as_changed(self):
        a, n = torch.randn(5, requires_grad=True), torch.zeros(5)
        with torch.no_grad():
            m.scaled(a, n)
        self.assertEqual(n._version, 1)
        y = (w := torch.ones(5, requires_grad=True)) * n
        m.scaled.direct(a.detach(), n)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        self.assertIsNone(w.grad)

    def test_of_an_input_that_is_not_read_only_the_shape_is_kept(self):
        pair, = (m.residual.operators or autograd.Operators(m.residual)).pairs
        self.assertEqual(pair.unread, {"x"})
        x = torch.randn((T, F), requires_grad=True)
        a, wg, wu = (torch.randn(s).to(torch.bfloat16) for s in ((T, H), (H, F), (H, F)))
        y = m.residual(x, a, wg, wu)
        self.assertFalse(any(v.shape == x.shape and torch.equal(v, x) for v in y.grad_fn.saved_tensors))
        y.sum().backward()
        self.assertTrue(torch.equal(x.grad, torch.ones_like(x)))

    def test_gradients_that_no_derive_gives(self):
        a = torch.randn(5, requires_grad=True)
        with self.assertRaisesRegex(TypeError, "derive .scaled_fwd, scaled_bwd. from scaled wrt a"):
            m.scaled(a, torch.zeros(5))
        with torch.no_grad():
            torch.testing.assert_close(m.scaled(a, torch.zeros(5)), 2 * a)
        with self.assertRaisesRegex(TypeError, "outputs are made"):
            m.parts(a, a.detach(), 1.0, y=torch.empty(5))

    def test_numbers_have_gradients(self):
        f = moec.jit("""moe 1
dim T
kernel f(in x: f32[T], in s: f32, out y: f32[T]) { y[t] = s * x[t] }
derive (f_fwd, f_bwd) from f wrt x, s""").f
        x, s = torch.randn(5, requires_grad=True), torch.tensor(2.5, requires_grad=True)
        f(x, 2.0).sum().backward()
        self.assertTrue(torch.equal(x.grad, torch.full_like(x, 2.0)))
        f(x.detach(), s).sum().backward()
        torch.testing.assert_close(s.grad, x.detach().sum())
        x.grad = None
        torch.compile(lambda x, s: f(x, s).sum(), fullgraph=True)(x, s).backward()
        torch.testing.assert_close((x.grad, s.grad), (torch.full_like(x, 2.5), 2 * x.detach().sum()))
        square = moec.jit("""moe 1
kernel f(in s: f32, out y: f32, out z: bf16) { y = s * s   z = bf16(s) }
derive (f_fwd, f_bwd) from f wrt s""").f
        s.grad = None
        y, z = square(s)
        self.assertEqual(z.dtype, torch.bfloat16)
        y.backward()
        self.assertEqual(s.grad.item(), 5.0)

    def test_experts_of_unsigned_types(self):
        for type, id in ((torch.uint32, 2**32 - 1), (torch.uint64, 2**32), (torch.uint64, 2**64 - 1)):
            with self.assertRaisesRegex(ValueError, "outside -1..1"):
                moec.route(torch.tensor([[id]], dtype=type), 2)
        self.assertEqual(moec.route(torch.tensor([[1, 0]], dtype=torch.uint8), 2).row_of.tolist(), [[1, 0]])

    def test_gradients_of_gradients_are_refused(self):
        f = moec.jit("""moe 1
dim T
kernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] * x[t] * x[t] }
derive (f_fwd, f_bwd) from f wrt x""").f
        x = torch.randn(5, requires_grad=True)
        g, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "f_bwd has no derivative"):
            g.square().sum().backward()

    def test_compiled_graphs_have_no_break(self):
        def step(x, ids, p, wg, wu, wd):
            return m.ffn(x, moec.route(ids, E), p, wg, wu, wd).float().square().sum()

        def block(x, start, count, slot_of, row_of, p, wg, wu, wd):
            y = m.ffn(x, moec.Route(start, count, slot_of, row_of), p, wg, wu, wd)
            return (y.float() * 2).square().sum()
        x, ids, p, *w = arguments()
        rt = moec.route(ids, E)
        compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
        compiled(x, *rt.tensors, p, *w).backward()
        got = [v.grad for v in (x, p, *w)]
        for v in (x, p, *w):
            v.grad = None
        block(x, *rt.tensors, p, *w).backward()
        for a, b in zip(got, (x, p, *w)):
            self.assertTrue(torch.equal(a, b.grad))
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(step, backend="aot_eager", fullgraph=True)(x, ids, p, *w), step(x, ids, p, *w))

    def test_sizes_may_be_symbols(self):
        def loss(x, ids, p, *w):
            return m.ffn(x, moec.route(ids, E), p, *w).float().square().sum()
        x, ids, p, *w = (v.detach() for v in arguments())
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
        for n in (T, 20, 1):
            one, other = (x[:n].clone().requires_grad_() for _ in range(2))
            compiled(one, ids[:n], p[:n], *w).backward()
            loss(other, ids[:n], p[:n], *w).backward()
            self.assertTrue(torch.equal(one.grad, other.grad))

    def test_operators_pass_the_checks_of_torch_library(self):
        a, b = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
        m.parts(a, b, 2.0)
        operator, = m.parts.operators.pairs
        torch.library.opcheck(operator.op, (a, b, 2.0))

    def test_workers_of_a_data_loader(self):
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                return m.parts(torch.full((3,), float(i)), torch.ones(3), 2.0)[0]
        m.parts(torch.randn(3), torch.randn(3), 1.0)
        got = torch.cat(list(torch.utils.data.DataLoader(Data(), num_workers=2)))
        torch.testing.assert_close(got, 2 * torch.arange(4.0)[:, None].expand(4, 3))


class Example(unittest.TestCase):
    """examples/torch_experts.py."""

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, "examples")
        import torch_experts
        cls.example = torch_experts

    def test_a_block_learns(self):
        first, last = self.example.train(steps=40)
        self.assertLess(last, 0.7 * first)

    def test_a_model_of_transformers(self):
        found = importlib.util.find_spec("transformers")     # the folder beside this test has no origin
        if not found or not found.origin:
            self.skipTest("the package transformers is not installed")
        logits, gradients = self.example.compare_with_transformers()
        self.assertLess(logits, 0.05)
        self.assertLess(gradients, 0.1)


if __name__ == "__main__":
    unittest.main()
