#!/usr/bin/env python3
"""`moec lsp` as an editor speaks with it.

usage: lsp.py MOEC"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checking import check, result

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOEC = os.path.abspath(sys.argv[1])


class Client:
    def __init__(self):
        self.process = subprocess.Popen([MOEC, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.notices = 0, []

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        length = 0
        while (line := self.process.stdout.readline().strip()):
            name, value = line.split(b":")
            length = int(value) if name == b"Content-Length" else length
        return json.loads(self.process.stdout.read(length))

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def ask(self, method, params):
        """The result, or the error."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while (answer := self.read()).get("id") != self.number:
            self.notices.append(answer)
        return answer.get("result", answer.get("error"))

    def diagnostics(self):
        if not self.notices:
            self.notices.append(self.read())
        notice = self.notices.pop(0)
        check("a notice of diagnostics", notice["method"] == "textDocument/publishDiagnostics", str(notice))
        return notice["params"]["diagnostics"]

    def open(self, uri, text):
        self.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "moe", "version": 1, "text": text}})
        return self.diagnostics()

    def change(self, uri, text, version):
        self.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]})
        return self.diagnostics()


def place(text, word, nth=0, inside=0):
    """The position of the n-th time that a word stands in the text, in units of UTF-16."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(word, at + 1)
    line = text[:at].rsplit("\n", 1)[-1]
    return {"line": text.count("\n", 0, at), "character": len((line + word[:inside]).encode("utf-16-le")) // 2}


def at(uri, text, word, nth=0, inside=0):
    return {"textDocument": {"uri": uri}, "position": place(text, word, nth, inside)}


def life(c):
    error = c.ask("textDocument/hover", {})
    check("`initialize` comes first", error["code"] == -32002, str(error))
    found = c.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    check("capabilities", found["capabilities"]["hoverProvider"] is True and found["capabilities"]["textDocumentSync"]["change"] == 1 and
          found["capabilities"]["positionEncoding"] == "utf-16", str(found))
    c.notify("initialized", {})
    check("an unknown request", c.ask("moe/nothing", {})["code"] == -32601)
    check("a document that is not open", c.ask("textDocument/hover", {"textDocument": {"uri": "file:///no"}})["code"] == -32602)


def example(c):
    path = os.path.join(ROOT, "examples", "moe_ffn.moe")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    uri = pathlib.Path(path).as_uri()
    check("the example has no mistakes", c.open(uri, text) == [])

    def hover(word, nth=0, inside=0):
        answer = c.ask("textDocument/hover", at(uri, text, word, nth, inside))
        return answer and answer["contents"]["value"]

    check("a parameter", "in x: bf16[T, H]" in hover("x[rt"), hover("x[rt"))
    check("a local with its shape", "g: f32[R, F]" in hover("g[r, f]"), hover("g[r, f]"))
    check("a route", "in rt: route[T, K -> R]" in hover("rt.token"), hover("rt.token"))
    check("an index of rows", "r: rows of R" in hover("r, h] = x["), hover("r, h] = x["))
    check("an index", "h: 0 .. H - 1" in hover("h] = x["), hover("h] = x["))
    check("a function of the file", "fn silu(x) = x / (1 + exp(-x))" in hover("silu("), hover("silu("))
    check("a function of the language", "exp(a)" in hover("exp("), hover("exp("))
    check("a kernel", "kernel ffn(in x: bf16[T, H]" in hover("ffn("), hover("ffn("))
    check("a derived kernel", "derived from `ffn`" in hover("ffn_bwd") and "inout d_wd" in hover("ffn_bwd"), hover("ffn_bwd"))
    check("a dimension", hover("dim T", inside=4) and "dim T" in hover("dim T", inside=4), hover("dim T", inside=4))
    check("no name", hover("//") is None)

    def definition(word, nth=0):
        return c.ask("textDocument/definition", at(uri, text, word, nth))

    check("where a parameter is declared", definition("x[rt")["range"]["start"] == place(text, "x: bf16"), str(definition("x[rt")))
    check("where a local is", definition("xp[r, h] * wg")["range"]["start"] == place(text, "xp[r, h] "), str(definition("xp[r, h] * wg")))
    check("where a gradient's input is", definition("wd +=")["range"]["start"] == place(text, "wd: bf16"), str(definition("wd +=")))
    uses = c.ask("textDocument/references", {**at(uri, text, "xp[r, h]"), "context": {"includeDeclaration": True}})
    check("uses of a local", len(uses) == 3, str(uses))
    names = {s["name"]: s for s in c.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})}
    check("symbols", {"T", "R", "ffn", "ffn_fwd"} <= set(names) and
          {"x", "g", "y"} <= {s["name"] for s in names["ffn"]["children"]}, str(names.keys()))
    check("formatting keeps what is formatted", c.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {}})[0]["newText"]
          == text)


MISTAKE = """moe 1
dim T, H
// 𝔘𝔫𝔦𝔠𝔬𝔡𝔢
kernel norm(in x: f32[T, H], out y: f32[T, H]) {
  s[t] = sum(h) x[t, h] * x[t, h]
  /* 𝔘 */ y[t, h] = x[t, h] / sqr(s[t])
}
"""


def mistakes(c):
    uri = "untitled:1"
    text = MISTAKE.replace("/* 𝔘 */ ", "")
    found = c.open(uri, text)
    check("one mistake", len(found) == 1 and found[0]["code"] == "E0203" and found[0]["severity"] == 1 and
          found[0]["range"]["start"] == place(text, "sqr") and found[0]["range"]["end"] == place(text, "sqr", inside=3), str(found))
    actions = c.ask("textDocument/codeAction", {"textDocument": {"uri": uri}, "range": found[0]["range"],
                                                "context": {"diagnostics": found}})
    edit = actions[0]["edit"]["changes"][uri][0]
    check("the help as an edit", edit["newText"] == "sqrt" and edit["range"] == found[0]["range"], str(actions))
    mended = text.replace("sqr(", "sqrt(")
    check("the mended text is right", c.change(uri, mended, 2) == [])
    check("no edits any more", c.ask("textDocument/codeAction", {"textDocument": {"uri": uri}, "range": found[0]["range"],
                                                                 "context": {"diagnostics": []}}) == [])
    wide = "moe 1\ndim T // 𝔘𝔫, allow W1002: ü\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = " + "abs(x[t]) + zz[t] }\n"
    c.change(uri, wide, 3)
    text = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] } use \"ü𝔘.moe\" dim Z Z\n"
    found = c.change(uri, text, 4)
    check("columns behind wide characters", any(d["range"]["start"] == place(text, "Z Z", inside=2) for d in found), str(found))
    check("hover in a text with mistakes", c.ask("textDocument/hover", at(uri, text, "x[t]")) is not None)
    broken = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = (x[t] "
    check("an unfinished text", c.change(uri, broken, 5)[0]["severity"] == 1)
    check("cannot be formatted", c.ask("textDocument/formatting", {"textDocument": {"uri": uri}, "options": {}}) is None)
    found = c.change(uri, "moe 1\ndim T\0\n", 6)
    check("a NUL byte is told", len(found) == 1 and found[0]["code"] == "E0103", str(found))
    c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    check("closed: nothing is wrong with it", c.diagnostics() == [])


def used_files(c, scratch):
    used, main = os.path.join(scratch, "with space.moe"), os.path.join(scratch, "main.moe")
    with open(used, "w", encoding="utf-8") as f:
        f.write("moe 1\ndim T\nfn twice(a) = 2 * a\n")
    text = 'moe 1\nuse "with space.moe"\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = twice(x[t]) }\n'
    uri = pathlib.Path(main).as_uri()
    check("a used file is read", c.open(uri, text) == [])
    there = c.ask("textDocument/definition", at(uri, text, "twice"))
    check("a definition in a used file", there["uri"] == pathlib.Path(used).as_uri() and there["range"]["start"] == {"line": 2, "character": 3},
          str(there))
    there = c.ask("textDocument/definition", at(uri, text, '"with'))
    check("the used file itself", there["uri"] == pathlib.Path(used).as_uri(), str(there))
    with open(used, "a", encoding="utf-8") as f:
        f.write("dim 7\n")
    c.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    found = c.diagnostics() + c.diagnostics()   # of all open documents
    check("a mistake in a used file", any("with space.moe:4" in d["message"] for d in found), str(found))


def frames():
    """What is no message."""
    for sent, status in [(b"", 1), (b"hello\r\n\r\n", 1), (b"Content-Length: 3\r\n\r\nxxx", 1), (b"Content-Length: 99\r\n\r\n{}", 1),
                         (b"Content-Length: 99999999999\r\n\r\n{}", 1), (b"x" * 9000, 1)]:
        done = subprocess.run([MOEC, "lsp"], input=sent, stdout=subprocess.PIPE, timeout=20)
        check(f"{sent[:20]} ends with {status}", done.returncode == status, done.stdout.decode())


def main():
    c = Client()
    life(c)
    example(c)
    mistakes(c)
    with tempfile.TemporaryDirectory() as scratch:
        used_files(c, scratch)
    check("shutdown", c.ask("shutdown", None) is None)
    c.notify("exit", None)
    check("exit", c.process.wait(timeout=20) == 0)
    frames()
    return result("lsp")


if __name__ == "__main__":
    sys.exit(main())
