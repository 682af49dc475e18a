"""Forks beside imports and signals: the child goes on, and what a handler raises comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def run(text: str) -> str:
    """What a process of its own prints."""
    text = "import os, signal, sys, threading, time, warnings\nwarnings.simplefilter('ignore')\n" + text
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("patience", [10, 0])
def test_a_child_imports_what_another_thread_was_importing(patience: int) -> None:
    """Also where the import begins when nobody looks any more."""
    text = f"""
import weft
from weft.core import forks
forks.PATIENCE = {patience}
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "weft.masked" and os.getpid() == parent:
            entered.set(); time.sleep(0.3)
entered, parent = threading.Event(), os.getpid()
sys.modules.pop("weft.masked", None)
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=lambda: __import__("weft.masked"))
thread.start(); entered.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    import weft.masked
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
    run(text)


def test_a_signal_that_comes_in_a_hook_strikes_behind_it() -> None:
    text = """
import weft
from weft.core import forks
class Timeout(Exception):
    pass
def ring(number, frame):
    raise Timeout
lock = threading.RLock()
def hold():
    with lock:
        time.sleep(0.3)
threading.Thread(target=hold).start()
done = []
forks.around(lambda: done.append(lock.acquire(timeout=5)), lambda: lock.release(), lambda: lock.release())
signal.signal(signal.SIGALRM, ring)
signal.siginterrupt(signal.SIGALRM, False)
parent = os.getpid()
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    child = os.fork()
    if child == 0:
        os._exit(signal.getsignal(signal.SIGALRM) is not ring)
    time.sleep(1)
except Timeout:
    print("caught")
assert os.getpid() == parent and os.wait()[1] == 0
assert done == [True] and signal.getsignal(signal.SIGALRM) is ring
assert os.fork() or os._exit(0) is None
"""
    assert run(text) == "caught\n"


def test_handlers_are_left_to_the_main_thread() -> None:
    """A thread that forks while the main one does, or compiles, loses none; its child has the user's."""
    text = """
import weft
from weft.core import forks
from weft.core.handlers import handlers_outside
came, codes = [], []
def ring(number, frame):
    came.append(number)
signal.signal(signal.SIGUSR1, ring)
main, inside, others = threading.get_ident(), threading.Event(), threading.Event()
def wait():
    if threading.get_ident() == main:
        inside.set(); assert others.wait(5)
        signal.raise_signal(signal.SIGUSR1)
def fork():
    child = os.fork()
    if child == 0:
        os._exit(signal.getsignal(signal.SIGUSR1) is not ring)
    codes.append(os.waitpid(child, 0)[1])
def other():
    assert inside.wait(5)
    fork()
    others.set()
forks.around(wait, int, int)
thread = threading.Thread(target=other)
thread.start()
fork()
thread.join()
with handlers_outside():
    thread = threading.Thread(target=fork)
    thread.start(); thread.join()
assert signal.getsignal(signal.SIGUSR1) is ring and codes == [0, 0, 0], codes
assert came == [signal.SIGUSR1]
"""
    assert run(text) == ""


def test_imports_that_begin_while_a_fork_waits_are_waited_for() -> None:
    text = """
import weft
from weft.core import forks
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "weft.masked":
            entered.set(); time.sleep(0.3)
entered, threads = threading.Event(), []
sys.modules.pop("weft.masked", None)
sys.meta_path.insert(0, Slow())
def wait():
    if not threads:
        threads.append(threading.Thread(target=lambda: __import__("weft.masked")))
        threads[0].start(); entered.wait()
done = []
forks.around(wait, lambda: done.append("parent"), lambda: done.append("child"))
child = os.fork()
if child == 0:
    os._exit("weft.masked" not in sys.modules or done != ["parent", "child"])
assert os.waitpid(child, 0)[1] == 0 and done == ["parent", "parent"]
threads[0].join()
"""
    assert run(text) == ""
