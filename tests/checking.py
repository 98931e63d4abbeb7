"""What a test that goes on after a failure says: each check that does not hold, and whether all did."""
BAD = []


def check(what, holds, said=""):
    if not holds:
        BAD.append(what)
        print(f"FAILED: {what}\n{said}")


def result(name):
    """The exit code of the test."""
    print(f"{name}:", "failed" if BAD else "ok")
    return len(BAD) > 0
