#!/usr/bin/env python3
"""A search and its database under what users do to them: processes that are killed, a lock that stays, records that are anyone's.

usage: tune.py MOEC"""
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from checking import check, result

MOEC, ROOT = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNEL = f"{ROOT}/examples/rmsnorm.moe"


def start(db, *options):
    return subprocess.Popen([MOEC, "tune", KERNEL, "T=16", "H=64", "--db", db, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def moec(*command):
    done = subprocess.run([MOEC, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def with_records(db):
    """A database that a search has left records in: with more time if a busy machine needs more."""
    for budget in "2s", "10s", "60s":
        out = start(db, "--budget", budget).communicate(timeout=300)[0]
        if re.search(r"looked at, \d+ measured", out):
            return
    check("a search leaves records", False, out)


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True).stdout
    return [int(word) for word in listed.split()]


def kill_children(search):
    for pid in children(search.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def killed(db, again):
    """Ends the processes of a search, the default's and those of candidates, after something was measured: once, or again and again.
    Returns code, messages and results."""
    search = start(db, "--budget", "5m")
    while search.poll() is None and "tried" not in moec("db", "ls", "--all", "--db", db)[1]:
        time.sleep(0.1)
    kill_children(search)
    said = search.stderr.readline()
    while again and search.poll() is None:
        kill_children(search)
        time.sleep(0.1)
    if not again:
        search.send_signal(signal.SIGINT)
    out, err = search.communicate(timeout=120)
    return search.returncode, said + err, out


def a_killed_default_begins_again_once(at):
    code, err, out = killed(f"{at}/once.db", False)
    check("a search outlives one kill", code == 0 and "signal 9 (Killed); it begins again, once" in err
          and ("keep the default" in out or "schedule rmsnorm" in out), f"{code} {err}{out}")
    code, err, out = killed(f"{at}/twice.db", True)
    check("two end it, and what was measured is there", code == 1 and f"what was measured before is kept in {at}/twice.db" in err
          and "tried" in moec("db", "ls", "--all", "--db", f"{at}/twice.db")[1], f"{code} {err}{out}")


def a_lock_that_stays_is_named(at):
    db = f"{at}/locked.db"
    with_records(db)
    lock = sqlite3.connect(db, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    search = start(db, "--budget", "1s")
    err = search.communicate(timeout=120)[1]
    check("a lock that stays", search.returncode == 1 and f"{db}: another program has kept it locked for 20 s; --no-db keeps no records" in err,
          err)
    lock.execute("ROLLBACK")
    lock.close()


def records_are_shown_without_control_characters(at):
    db = f"{at}/shown.db"
    with_records(db)
    with sqlite3.connect(db) as c:
        c.execute("UPDATE records SET routing = 'a' || char(27) || '[31m' || char(10) || 'b'")
        c.execute("UPDATE records SET why = char(7), schedule = char(27) || 'x' || char(10)")
    c.close()
    code, listed = moec("db", "ls", "--all", "--db", db)
    check("ls", code == 0 and "a?[31m?b" in listed and "\033" not in listed, repr(listed))
    code, shown = moec("db", "show", "1", "--db", db)
    check("show", code == 0 and "why        ?\n?x\n" in shown and "\033" not in shown, repr(shown))


def main():
    with tempfile.TemporaryDirectory() as at:
        a_killed_default_begins_again_once(at)
        a_lock_that_stays_is_named(at)
        records_are_shown_without_control_characters(at)
    return result("tune")


if __name__ == "__main__":
    sys.exit(main())
