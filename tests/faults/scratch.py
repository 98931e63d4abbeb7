"""A copy of the compiler that faults are planted in: built once, then file by file; shared by run and random."""
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# They look at the text of the sources, where every change shows.
TEXT_TESTS = "^(faults|includes|layout|literals|type_names)$"
# What the command alone is needed for comes first: most faults come no further, and the unit tests are not even linked.
BY_COMMAND = "^(differential/.*|golden|errors|verify|tile_text|cli)$"
SUITES = [(("moec_command", "moec_backend"), ("-L", "fast|broad", "-R", BY_COMMAND), []),
          ((), ("-L", "fast|broad"), [BY_COMMAND, TEXT_TESTS])]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def quiet(command, log, **options):
    with open(log, "ab") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, **options).returncode


def known_files():
    """The files git knows, as they are in the work tree."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    return [name for name in names if name and os.path.isfile(os.path.join(ROOT, name))]


class Scratch:
    """folder/source and folder/build; one that is there already is brought up to date."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.source, self.build, self.log = (os.path.join(folder, n) for n in ("source", "build", "log"))
        self.moec = os.path.join(self.build, "bin", "moec")
        self.copy_tree()
        if quiet(["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, "-DCMAKE_BUILD_TYPE=None",
                  "-DCMAKE_C_FLAGS=-O1 -DNDEBUG"], self.log) or self.make():
            raise SystemExit(f"faults: the unchanged copy does not build, see {self.log}")

    def copy_tree(self):
        """A planted fault may leave a variable unused, so no -Werror."""
        names = known_files()
        for folder, _, files in os.walk(self.source):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.source) not in set(names):
                    os.unlink(path)
        for name in names:
            source, place = os.path.join(ROOT, name), os.path.join(self.source, name)
            with open(source, "rb") as f:
                data = f.read()
            if name == "CMakeLists.txt":
                data = data.replace(b"-Werror ", b"")
            if not os.path.isfile(place) or open(place, "rb").read() != data:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as f:
                    f.write(data)
                shutil.copymode(source, place)

    def python(self):
        """The one that the tests run with: it has numpy."""
        return re.search(r"^PYTHON3:\w+=(.*)$", read(os.path.join(self.build, "CMakeCache.txt")), re.M).group(1)

    def path(self, name):
        return os.path.join(self.source, name)

    def make(self, targets=()):
        """0: it builds."""
        shutil.rmtree(os.path.join(self.build, "test-cache"), ignore_errors=True)
        return quiet(["cmake", "--build", self.build, "-j2", *(["--target", *targets] if targets else [])], self.log)

    def test(self, choose, leave_out, stop=True):
        """Names of the failing tests, with `stop` of the first ones only. choose: options of ctest; leave_out: a list of
        regular expressions."""
        without = ["-E", "|".join(leave_out)] if leave_out else []
        done = subprocess.run(["ctest", "--test-dir", self.build, *choose, *without, "-j2", "--timeout", "120",
                               "--no-tests=error", "--output-on-failure", *(["--stop-on-failure"] if stop else [])],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = done.stdout.decode("utf-8", "replace")
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(output)
        self.output, _, summary = output.rpartition("The following tests FAILED:")
        failed = re.findall(r"^\s*\d+ - (\S+) \((?!Not Run)", summary, re.M)
        return failed or (["(no test ran)"] if done.returncode else [])

    def failing(self, choose, leave_out):
        """Expressions for the tests that fail without a fault, which is said."""
        failed = self.test(choose, leave_out, stop=False)
        if failed:
            print("faults: the unchanged copy fails already, which does not count:", ", ".join(failed), flush=True)
        return [f"^{re.escape(name)}$" for name in failed]

    def suites(self):
        """All tests of labels fast and broad that pass without a fault."""
        return [(targets, choose, leave_out + self.failing(choose, leave_out)) for targets, choose, leave_out in SUITES]

    def command(self, words):
        """Like test(), of a command that is no test of ctest."""
        try:
            return [os.path.basename(words[1])] if quiet(words, self.log, cwd=self.source, timeout=600) else []
        except subprocess.TimeoutExpired:
            return [os.path.basename(words[1]) + " (too long)"]

    def try_fault(self, path, text, suites, last=lambda scratch: []):
        """The file with another text: None when it does not build, else the failing tests of the first suite that has any.
        suites: what must be built (nothing: everything), and what test() takes. last: asked when no suite fails."""
        own = read(path)
        write(path, text)
        try:
            for targets, choose, leave_out in suites:
                if self.make(targets):
                    return None
                failed = self.test(choose, leave_out)
                if failed:
                    return failed
            return last(self)
        finally:
            write(path, own)
