#!/usr/bin/env python3
"""`moec report`: its text, its trace as JSON for Perfetto, its page as HTML. The page is read by html.parser, which wants every
element closed in turn, by xmllint and by Chromium where they are installed. And what a fused gradient saves.
usage: report.py MOEC"""
import glob
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

VOID = {"meta"}
CASES = [("examples/moe_ffn.moe", "ascend910b2", "T=300,K=2,E=4,H=512,F=256,routing=zipf(1.2), empty(30%)"),
         ("examples/moe_ffn.moe", "ascend950pr", "T=0,K=1,E=2,H=64,F=64"),
         ("examples/rmsnorm.moe", "ascend910b4", "T=500,H=1024"),
         ("examples/moe_ffn.moe", "host", "T=300,K=2,E=4,H=512,F=256,routing=zipf(1.2), empty(30%)")]

SUMS = """moe 1
dim T, K, E
dim H, F : % 16
group R : E rows T*K
kernel fused(in x: bf16[R, H], in d: bf16[R, F], in rt: route[T, K -> R], inout w: f32[E, H, F]) {
  w[e, h, f] += sum(r in e) x[r, h] * d[r, f]
}
kernel product(in x: bf16[R, H], in d: bf16[R, F], in rt: route[T, K -> R], out g: bf16[E, H, F]) {
  g[e, h, f] = bf16(sum(r in e) x[r, h] * d[r, f])
}
kernel add(in g: bf16[E, H, F], inout w: f32[E, H, F]) {
  w[e, h, f] += g[e, h, f]
}
"""

LAYER = """moe 1
dim T, E, H, F
dim K <= 64
group R : E rows T*K
kernel layer(in x: bf16[T, H], in s: f32[T, E], in w: bf16[E, H, F], out y: bf16[R, F]) {
  p[t, k: K], id[t, k: K] = top(e) s[t, e]
  rt = route(id -> R)
  y[r, f] = bf16(p[rt.token(r), rt.slot(r)] * (sum(h) x[rt.token(r), h] * w[@r, h, f]))
}
"""


# 2 * T * H * F operations on f32 each, that are products or loops: none may be faster than the machine.
LOOPS = """moe 1
dim T, H, F
kernel plain(in x: f32[T, H], in w: f32[H, F], out y: f32[T, F]) { y[t, f] = sum(h) x[t, h] * w[h, f] }
kernel data(in x: f32[T, H], in w: f32[H, F], in q: f32[T], out y: f32[T, F]) {
  y[t, f] = sum(h where q[t] < x[t, h]) x[t, h] * w[h, f]
}
kernel unequal(in x: f32[T, H], in w: f32[H, F], out y: f32[T, F]) { y[t, f] = sum(h where h != t) x[t, h] * w[h, f] }
kernel folded(in x: f32[T, H], in w: f32[H, F], out y: f32[T]) { y[t] = sum(f, h) x[t, h] * w[h, f] }
kernel apart(in x: f32[T, H], in w: f32[H, F], out y: f32[T, F]) { y[t, f] = sum(h) max2(x[t, h], w[h, f]) }
"""


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.wrong = [], {}, []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names):
            self.wrong.append(f"{tag}: an attribute twice")
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("x", "y", "width", "height") and float(value) < 0:
                self.wrong.append(f"{tag} {name}={value}")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")


def check_words(text, page, machine):
    """A CPU has no cube."""
    with open(page, encoding="utf-8") as f:
        shown = text + re.sub("<[^>]*>", " ", f.read())
    return ["a CPU's report tells of a cube"] if machine == "host" and re.search(r"\bcube\b(?!{)", shown) else []


def check_page(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page()
    page.feed(text)
    page.close()
    wrong = page.wrong + [f"<{tag}> stays open" for tag in page.open]
    for tag, n in (("html", 1), ("head", 1), ("body", 1), ("title", 1), ("h1", 1), ("table", 1)):
        if page.seen.get(tag, 0) < n:
            wrong.append(f"no <{tag}>")
    if "http://" in text or "https://" in text or "src=" in text:
        wrong.append("the page needs something else")
    if shutil.which("xmllint") and subprocess.run(["xmllint", "--noout", path]).returncode:
        wrong.append("xmllint refuses it")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser:
        shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout.decode()
        if shown.count("<rect") != text.count("<rect"):
            wrong.append("the browser shows another page")
    return wrong


def check_trace(path):
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    wrong, ends, named = [], {}, set()
    for e in events:
        if e["ph"] == "M":
            named.add((e["name"], e["pid"], e["tid"]))
    for e in events:
        if e["ph"] != "X":
            continue
        key = e["pid"], e["tid"]
        if e["ts"] + 1e-3 < ends.get(key, 0) or e["dur"] < 0:
            wrong.append(f"{e['name']} begins before the unit is free")
        ends[key] = e["ts"] + e["dur"]
        if e["pid"] and ("thread_name", *key) not in named:
            wrong.append(f"{key} has no name")
    return wrong[:5]


def check_text(text):
    wrong = [] if re.search("docs/accuracy.md|known to be off by up to", text) else ["does not say how wrong it may be"]
    return wrong + (["says that it is cycle accurate"] if "cycle accurate" in text else [])


def check_gradient(moec, scratch):
    """Global memory that a weight gradient moves for each of its elements: 8 bytes added in place, 12 in two kernels."""
    path, sizes = os.path.join(scratch, "sums.moe"), {"T": 1024, "K": 2, "E": 8, "H": 2048, "F": 4096}
    with open(path, "w", encoding="utf-8") as f:
        f.write(SUMS)
    moved, times = {}, {}
    for kernel in ("fused", "product", "add"):
        text = subprocess.run([moec, "report", path, kernel, "--machine", "ascend910b2", "--sizes",
                               ",".join(f"{k}={v}" for k, v in sizes.items())], check=True, stdout=subprocess.PIPE).stdout.decode()
        number, unit = re.search(r"^together .* ([0-9.]+) ([KMG]?)B$", text, re.M).groups()
        moved[kernel] = float(number) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[unit]
        times[kernel] = float(re.search(r": ([0-9.]+) us", text).group(1))
    inputs = 2 * sizes["T"] * sizes["K"] * (sizes["H"] + sizes["F"])
    elements = sizes["E"] * sizes["H"] * sizes["F"]
    one, two = (moved["fused"] - inputs) / elements, (moved["product"] + moved["add"] - inputs) / elements
    print(f"weight gradient: {one:.1f} bytes for an element fused, {two:.1f} unfused; "
          f"{times['fused']:.0f} us, {times['product'] + times['add']:.0f} us")
    good = 7.9 < one < 8.5 and 11.9 < two < 12.5 and times["fused"] < times["product"] + times["add"]
    return [] if good else ["8 and 12 were expected, and less time"]


def check_choices(moec, scratch):
    """What `top` chooses without data: what the routing says, in the rows of groups and in the sums that are moved."""
    path, wrong = os.path.join(scratch, "layer.moe"), []
    with open(path, "w", encoding="utf-8") as f:
        f.write(LAYER)
    for routing, groups, sums in (("exact(0, 200, 5, 300)", "0/ 126.2/ 300 2.38 3", "517 KB"),
                                  ("exact(128, 128)", "0/ 64.0/ 128 2.00 0", "262 KB")):
        text = subprocess.run([moec, "report", path, "--machine", "ascend910b2", "--sizes", f"T=512,K=2,E=4,H=256,F=256,routing={routing}"],
                              check=True, stdout=subprocess.PIPE).stdout.decode()
        found = " ".join(re.search(r"^rt +4 +(.*)$", text, re.M).group(1).split())
        moved = re.findall("[0-9.]+ [KM]?B", re.search(r"^y .*B$", text, re.M).group(0))
        if found != groups or moved[4] != sums:
            wrong.append(f"{routing}: {found}, {moved[4]} of sums")
    return wrong


def check_host(moec, scratch):
    """This CPU: every example has a report, a product takes no less time than its multiply-adds, small blocks take longer."""
    wrong, times = [], []
    for path in sorted(glob.glob("examples/*.moe")):
        done = subprocess.run([moec, "report", path, "--machine", "host"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode or check_text(done.stdout.decode()):
            wrong.append(f"{path}: exit status {done.returncode}, {done.stdout.decode()[:200]}")
    path = os.path.join(scratch, "host.moe")
    for blocks in ("", "schedule product { tile g : M = 32 N = 32 K = 32 }"):
        with open(path, "w", encoding="utf-8") as f:
            f.write(SUMS + blocks)
        text = subprocess.run([moec, "report", path, "product", "--machine", "host", "--threads", "2", "--sizes",
                               "T=1024,K=2,E=8,H=512,F=256,routing=zipf(1.2)"], check=True, stdout=subprocess.PIPE).stdout.decode()
        us = float(re.search(r": ([0-9.]+) us", text).group(1))
        share, peak = (float(x) for x in re.search(r"^products: ([0-9.]+) % of ([0-9.]+) Gflop/s", text, re.M).groups())
        times.append(us)
        if share > 100 or us < 2e-3 * 2048 * 512 * 256 / peak:
            wrong.append(f"{us} us, {share} % of {peak} Gflop/s: faster than its multiply-adds")
    if times[1] < 1.1 * times[0]:
        wrong.append(f"blocks of 32 take {times[1]} us, the usual ones {times[0]}")
    return wrong


def check_peak(moec, scratch):
    """No kernel takes less time than its arithmetic does at the machine's peak: that of f32 on all vector cores, or on this CPU."""
    path, wrong = os.path.join(scratch, "loops.moe"), []
    with open(path, "w", encoding="utf-8") as f:
        f.write(LOOPS)
    for machine in ("host", "ascend910b2"):
        for kernel in re.findall(r"kernel (\w+)", LOOPS):
            text = subprocess.run([moec, "report", path, kernel, "--machine", machine, "--sizes", "T=512,H=512,F=576"],
                                  check=True, stdout=subprocess.PIPE).stdout.decode()
            us = float(re.search(r": ([0-9.]+) us", text).group(1))
            peak, unit = re.search(r"% of ([0-9.]+) ([GT])flop/s", text).groups()
            gflops = float(peak) if unit == "G" else 48 * 64 * 1.8 if kernel != "plain" else 1e3 * float(peak)
            if us < 2e-3 * 512 * 512 * 576 / gflops:
                wrong.append(f"{kernel} on {machine}: {us} us are faster than {gflops} Gflop/s")
    return wrong


def check_settings(moec, scratch):
    """What a schedule says of a launch: results that are stored past the caches are not read first, and on one thread it takes
    longer than on two."""
    path, us = os.path.join(scratch, "settings.moe"), {}
    for clause in ("writes past", "writes kept", "threads = 1"):
        with open(path, "w", encoding="utf-8") as f:
            f.write("moe 1\ndim T, H\nkernel twice(in x: bf16[T, H], out y: bf16[T, H]) { y[t, h] = bf16(2 * x[t, h]) }\n"
                    f"schedule twice {{ launch y : {clause} }}\n")
        text = subprocess.run([moec, "report", path, "--machine", "host", "--threads", "2", "--sizes", "T=8192,H=4096"], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        us[clause] = float(re.search(r": ([0-9.]+) us", text).group(1))
    return [] if us["writes kept"] > 1.3 * us["writes past"] and us["threads = 1"] > us["writes past"] else [str(us)]


def check_traffic(moec, scratch):
    """A product and what packs for it fetch both of its operands from memory at least once."""
    path = os.path.join(scratch, "traffic.moe")
    with open(path, "w", encoding="utf-8") as f:
        f.write("moe 1\ndim T, H, F\nkernel product(in a: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F]) {\n"
                "  y[t, f] = bf16(sum(h) a[t, h] * w[h, f])\n}\n")
    text = subprocess.run([moec, "report", path, "--machine", "host", "--sizes", "T=1024,H=1024,F=256"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    launches = re.search(r"^bytes from and to .*\n((?:.+\n)+)", text, re.M).group(1)
    fetched = sum(float(number) * (1e3 if unit == "K" else 1e6) for number, unit in re.findall(r" ([0-9.]+) ([KM])B$", launches, re.M))
    operands = 2 * (1024 * 1024 + 1024 * 256)
    return [] if fetched >= 0.99 * operands else [f"{fetched} bytes from memory, the operands have {operands}"]


def check_forced(moec, scratch):
    """An NPU's report does not depend on the instruction set that MOE_ISA forces, nor on whether this CPU has it."""
    texts = {isa: subprocess.run([moec, "report", "examples/rmsnorm.moe", "--machine", "ascend910b2", "--sizes", "T=64,H=256"],
                                 env={**os.environ, "MOE_ISA": isa}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
             for isa in ("", "avx2", "amx")}
    return check_text(texts[""]) + [f"MOE_ISA={isa}: {text[:200]}" for isa, text in texts.items() if text != texts[""]]


def check_sampled(moec, scratch):
    """Of large launches some items are looked at, and stand for all: what is quadratic in S still is. (With AMX what is
    not, packs of keys and values, is a fifth of the host's time at S=2048.)"""
    wrong = []
    for machine, positions in (("ascend910b2", (2048, 8192)), ("host", (4096, 16384))):
        us = []
        for s in positions:
            text = subprocess.run([moec, "report", "examples/attention.moe", "attention", "--machine", machine, "--threads", "2",
                                   "--sizes", f"B=1,N=8,D=128,S={s}"], check=True, stdout=subprocess.PIPE).stdout.decode()
            us.append(float(re.search(r": ([0-9.]+) us", text).group(1)))
        if "items were looked at" not in text:
            wrong.append(f"{machine}: nothing is sampled at S={positions[1]}")
        if not re.search(r"^balance over cores .*\n.* [0-9.]+/ *[0-9.]+/ *[0-9.]+  [0-9.]+$", text, re.M):
            wrong.append(f"{machine}: nothing is said of the balance over cores")
        if not 14 < us[1] / us[0] < 18:
            wrong.append(f"{machine}: {us[1] / us[0]:.1f} times as long for four times the positions")
    return wrong


def main():
    moec = os.path.abspath(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory(prefix="moec-report-") as scratch:
        page, trace = os.path.join(scratch, "r.html"), os.path.join(scratch, "r.json")
        for path, machine, sizes in CASES:
            done = subprocess.run([moec, "report", path, "--machine", machine, "--sizes", sizes, "--html", page, "--trace", trace],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            text = done.stdout.decode()
            wrong = [f"exit status {done.returncode}: {text[:300]}"] if done.returncode else (
                check_text(text) + check_words(text, page, machine) + check_page(page) + check_trace(trace))
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok'}  {path} {machine} {sizes}", *wrong, sep="\n    ")
        for what, check in (("fused against unfused", check_gradient), ("choices by the routing", check_choices),
                            ("this CPU", check_host), ("no model beats its machine", check_peak), ("operands are fetched", check_traffic), ("settings of launches", check_settings),
                            ("a forced instruction set", check_forced), ("large launches", check_sampled)):
            wrong = check(moec, scratch)
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok'}  {what}", *wrong, sep="\n    ")
    sys.exit(failed > 0)


main()
