"""dlock run and commands that are hard to stop: other users, other groups and sessions, no /proc, a guard that is killed, a full stderr."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Iterator

import pytest

from harness.build import LIBRARY, preloadable
from harness.fake import FakeServer
from harness.server import Server
from harness.tally import tell
from harness.waiting import wait_until
from shell import PROGRAM, Running, dlock, environment, gone, is_sentence, state_of

Make = Callable[..., Any]
NOBODY = 65534
WARY = "?drift_ppm=200000"
TERMS = ["--lease", "4s", "--grace", "100ms"]
# It prints its own number and that of a process that has left its group, in whatever way.
LEAVERS = {
    "timeout": "timeout 600 sh -c 'echo $$; exec sleep 600' & echo $$; wait",
    "setsid": "setsid sh -c 'echo $$; exec sleep 600' & echo $$; wait",
    "daemon": "(setsid sh -c 'echo $$; exec sleep 600' &) ; echo $$; exec sleep 600",
    "deep": "setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 600\" & wait' & echo $$; wait",
    "thread": f"{sys.executable} -c \"import threading, subprocess as s; t = threading.Thread(target=lambda: s.run(['sh', '-c', 'echo \\$\\$; exec sleep 600'], start_new_session=True)); t.start(); t.join()\" & echo $$; wait",
}
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def children(pid: int) -> set[int]:
    return {int(one) for one in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def two(job: Running) -> list[int]:
    return [int(job.line()), int(job.line())]


def guard_of(job: Running, *others: int) -> int:
    (guard,) = wait_until(lambda: {pid for pid in children(job.process.pid) - set(others) if not gone(pid)})
    return int(guard)


# ---- those that have left the group


@pytest.mark.parametrize("how", list(LEAVERS))
def test_the_lock_is_lost(redis_server: Server, how: str) -> None:
    with Running("run", *TERMS, "job", "--", "sh", "-c", LEAVERS[how], url=redis_server.url) as job:
        pids = two(job)
        redis_server.command("DEL", "job")
        assert job.code() == 76 and all(map(gone, pids))
        assert is_sentence(job.said())


@pytest.mark.parametrize("how", list(LEAVERS))
def test_dlock_is_killed(redis_server: Server, how: str) -> None:
    with Running("run", "job", "--", "sh", "-c", LEAVERS[how], url=redis_server.url) as job:
        pids = two(job)
        job.process.kill()
        wait_until(lambda: all(map(gone, pids)))


def named(parent: int, name: str) -> int:
    (child,) = wait_until(lambda: {pid for pid in children(parent) if pathlib.Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"})
    return int(child)


def test_a_run_inside_of_one_that_is_killed(redis_server: Server) -> None:
    """The outer guard finds what the inner run has started, also when it ends the inner guard first."""
    with Running("run", "--keep-url", "outer", "--", PROGRAM, "run", "inner", "--", "sh", "-c", LEAVERS["setsid"], url=redis_server.url) as job:
        pids = two(job)
        inner = named(job.process.pid, "dlock")
        for pid in (inner, named(inner, "dlock-guard")):
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: state_of(pid) == "T")
        job.process.kill()
        wait_until(lambda: all(map(gone, pids)))


@pytest.mark.parametrize("how", ["timeout", "daemon"])
def test_dlock_is_stopped(redis_server: Server, how: str) -> None:
    with Running("run", *TERMS, "job", "--", "sh", "-c", LEAVERS[how], url=redis_server.url) as job:
        pids = two(job)
        job.stop()
        wait_until(lambda: all(map(gone, pids)))
        job.resume()
        assert job.code() == 76 and is_sentence(job.said())


# ---- those that get a new parent while dlock looks for them


@pytest.fixture
def dying(tmp_path: pathlib.Path) -> Iterator[dict[str, str]]:
    """The environment of a dlock that is slow to read /proc: whoever is about to die does so while it looks."""
    file = tmp_path / "died"
    file.touch()
    asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    yield {"LD_PRELOAD": preloadable("dying.so"), "DLOCK_DYING": str(file), "ASAN_OPTIONS": asan}
    tell(fired=file.stat().st_size)


@pytest.mark.parametrize("how", ["timeout", "deep"])
def test_a_parent_dies_while_the_guard_looks(redis_server: Server, dying: dict[str, str], how: str) -> None:
    """Again until one has died so: on a busy machine they may all be dead before it looks."""
    while not pathlib.Path(dying["DLOCK_DYING"]).stat().st_size:
        with Running("run", *TERMS, "job", "--", "sh", "-c", LEAVERS[how], url=redis_server.url, env=dying) as job:
            pids = two(job)
            job.stop()
            wait_until(lambda: all(map(gone, pids)))
            job.resume()
            assert job.code() == 76 and is_sentence(job.said())


def test_children_that_dlock_had_before(redis_server: Server) -> None:
    """A shell that becomes dlock has some: they are not the command's."""
    script = f"sleep 600 >/dev/null 2>&1 & echo $!; exec {PROGRAM!r} run --lease 2s --grace 100ms job -- sh -c 'echo ready; exec sleep 600'"
    with subprocess.Popen(["sh", "-c", script], env=environment(redis_server.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shell:
        assert shell.stdout
        before = int(shell.stdout.readline())
        try:
            assert shell.stdout.readline() == "ready\n"
            redis_server.command("DEL", "job")
            assert shell.wait(30) == 76 and not gone(before)
        finally:
            os.kill(before, signal.SIGKILL)


# ---- those that became another user


@pytest.fixture
def other() -> Iterator[Callable[..., list[str]]]:
    """A command line of dlock for a plain user, and beside it "become", a program with a set-user-ID bit."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlock-"))
    folder.chmod(0o755)
    for file in (PROGRAM, str(LIBRARY), str(shutil.which("setpriv"))):
        shutil.copy(file, folder)
    shutil.move(folder / "setpriv", folder / "become")
    os.chmod(folder / "become", 0o4755)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"LD_LIBRARY_PATH={folder}", str(folder / "dlock"), "run"]
    try:
        if subprocess.run([*as_nobody, "--help"], capture_output=True).returncode:
            pytest.skip("a plain user cannot run it")
        yield lambda *words: [*as_nobody, *(str(folder / word) if word == "become" else word.replace("@", str(folder)) for word in words)]
    finally:
        shutil.rmtree(folder)


BECOME = ["become", "--reuid=0", "sh", "-c", "echo $$; exec sleep 600 2>/dev/null"]


def begin(words: list[str], url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(words, env=environment(url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@root
def test_a_command_that_becomes_root_is_refused(redis_server: Server, other: Make) -> None:
    done = subprocess.run(other("job", "--", *BECOME), env=environment(redis_server.url), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (126, "") and is_sentence(done.stderr)
    assert "set-user-ID" in done.stderr and "--best-effort" in done.stderr and redis_server.command("DBSIZE") == 0


@root
def test_a_folder_of_its_name_does_not_hide_it(redis_server: Server, other: Make) -> None:
    """execvp passes over a folder, and so does the search for what it runs."""
    folder = pathlib.Path(other("@")[-1])
    (folder / "first" / "climb").mkdir(parents=True)
    (folder / "climb").symlink_to("become")
    path = f"{folder / 'first'}:{folder}:{os.environ['PATH']}"
    done = subprocess.run(other("job", "--", "climb", "--reuid=0", "true"), env={**environment(redis_server.url), "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 126 and "set-user-ID" in done.stderr


@root
@pytest.mark.parametrize("hidden", [False, True], ids=["seen at the start", "inside of a script"])
def test_a_command_that_becomes_root_runs_on(redis_server: Server, other: Make, hidden: bool) -> None:
    """dlock says which process it could not stop, and has a code of its own for that."""
    words = ["sh", "-c", "@/become --reuid=0 sh -c 'echo $$; exec sleep 600 2>/dev/null'"] if hidden else ["--", *BECOME]
    words = ["--lease", "2s", "--grace", "100ms", *([] if hidden else ["--best-effort"]), "job", *(["--"] if hidden else []), *words]
    with begin(other(*words), redis_server.url) as job:
        assert job.stdout and job.stderr
        pid = int(job.stdout.readline())
        try:
            redis_server.command("DEL", "job")
            said = job.stderr.read()
            assert job.wait(30) == 77 and not gone(pid)
            assert f"could not stop process {pid} (sleep)" in said and all(is_sentence(line + "\n") for line in said.splitlines())
            assert ("may run on" in said) == (not hidden)
            tell(fired=1)
        finally:
            os.kill(pid, signal.SIGKILL)


@root
def test_what_proc_hides_is_named_too(redis_server: Server, other: Make) -> None:
    """/proc of a process namespace of its own shows nobody else's processes. The one that runs on dies with the namespace."""
    script = "@/become --reuid=0 sleep 600 2>/dev/null & timeout 600 sleep 600 2>/dev/null & echo ready; wait"
    words = other("--lease", "2s", "--grace", "100ms", "job", "--", "sh", "-c", script)
    space = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && "$@"; exit $?', "sh"]
    if subprocess.run([*space, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    with begin([*space, *words], redis_server.url) as job:
        assert job.stdout and job.stderr and job.stdout.readline() == "ready\n"
        redis_server.command("DEL", "job")
        assert job.wait(30) == 77
        assert re.search(r"could not stop process \d+: it runs on", job.stderr.read())  # one, and nobody knows its name


@root
def test_what_cannot_be_stopped_is_no_matter_with_warn(redis_server: Server, other: Make) -> None:
    words = other("--lost", "warn", "job", "--", "become", "--reuid=0", "echo", "ran")
    done = subprocess.run(words, env=environment(redis_server.url), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


@root
def test_root_stops_everybody(redis_server: Server) -> None:
    with Running("run", *TERMS, "job", "--", "setpriv", f"--reuid={NOBODY}", "--clear-groups", "sh", "-c", "echo $$; exec sleep 600", url=redis_server.url) as job:
        pid = int(job.line())
        redis_server.command("DEL", "job")
        assert job.code() == 76 and gone(pid)


# ---- no /proc


def without_proc(*words: str) -> list[str]:
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", "env", f"LD_LIBRARY_PATH={LIBRARY.parent}"]
    if os.geteuid() != 0 or subprocess.run([*hide, "true"], capture_output=True).returncode:
        pytest.skip("no mounts here")
    return [*hide, PROGRAM, "run", *words]


def test_without_proc_it_refuses(redis_server: Server) -> None:
    done = subprocess.run(without_proc("job", "--", "echo", "ran"), env=environment(redis_server.url), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (126, "") and is_sentence(done.stderr) and "/proc" in done.stderr
    done = subprocess.run(without_proc("--best-effort", "job", "--", "sh", "-c", "echo ran; exit 5"), env=environment(redis_server.url), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "ran\n") and is_sentence(done.stderr) and "/proc" in done.stderr


def test_without_proc_the_guard_still_ends_it(redis_server: Server) -> None:
    """It does not know that dlock is stopped. It knows that dlock does nothing."""
    words = without_proc("--best-effort", *TERMS, "job", "--", "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")
    with begin(words, redis_server.url + WARY) as job:
        assert job.stdout
        pid = int(job.stdout.readline())
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: gone(pid))
        os.kill(job.pid, signal.SIGCONT)
        assert job.wait(30) == 76


def test_without_proc_the_group_ends(redis_server: Server) -> None:
    words = without_proc("--best-effort", *TERMS, "job", "--", "sh", "-c", "trap 'exit 0' TERM; (trap '' TERM; exec sleep 600) & echo $!; wait")
    with begin(words, redis_server.url) as job:
        assert job.stdout
        pid = int(job.stdout.readline())
        redis_server.command("DEL", "job")
        assert job.wait(30) == 76
        wait_until(lambda: gone(pid))


# ---- the guard


def test_a_killed_guard_is_replaced(redis_server: Server) -> None:
    """Three times. The last one does what the first would have done."""
    with Running("run", *TERMS, "job", "--", "sh", "-c", "echo $$; exec sleep 600", url=redis_server.url + WARY) as job:
        pid = int(job.line())
        for _ in range(3):
            guard = guard_of(job, pid)
            os.kill(guard, signal.SIGKILL)
            wait_until(lambda: gone(guard))
            assert guard_of(job, pid) != guard
        job.stop()
        wait_until(lambda: gone(pid))
        job.resume()
        assert job.code() == 76


def test_a_stopped_guard_goes_on(redis_server: Server) -> None:
    with Running("run", "job", "--", "sh", "-c", "echo $$; exec sleep 600", url=redis_server.url) as job:
        pid = int(job.line())
        guard = guard_of(job, pid)
        job.stop()
        os.kill(guard, signal.SIGSTOP)
        wait_until(lambda: state_of(guard) == "T")
        job.resume()
        wait_until(lambda: state_of(guard) == "S")
        job.process.kill()
        wait_until(lambda: gone(pid) and gone(guard))


def test_a_new_guard_has_no_files(redis_server: Server) -> None:
    with Running("run", "job", "--", "sh", "-c", "echo $$; exec sleep 600", url=redis_server.url) as job:
        pid = int(job.line())
        guard = guard_of(job, pid)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: gone(guard))
        guard = guard_of(job, pid)
        wait_until(lambda: os.listdir(f"/proc/{guard}/fd") == ["0"])
        job.process.terminate()
        assert job.code() == 128 + signal.SIGTERM and gone(guard)


# ---- signals in every phase


def test_a_signal_ends_the_first_connection(tmp_path: pathlib.Path) -> None:
    """The server says nothing for a minute."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        for more in ([], ["--wait", "1h"], ["--kind", "permit", "--permits", "2"]):
            with FakeServer() as mute:
                for command in ("HELLO", "AUTH", "PING", "CLIENT", "EVALSHA", "EVAL", "INFO"):
                    mute.on(command, b"")
                with Running("run", *more, "job", "--", "touch", tmp_path / "ran", url=mute.url + "?connect_timeout_ms=60000&command_timeout_ms=60000") as job:
                    wait_until(lambda: mute.requests)
                    job.process.send_signal(number)
                    assert job.code() == -number and job.said() == "" and not (tmp_path / "ran").exists()


def test_a_signal_ends_the_release(redis_server: Server, new_proxy: Make) -> None:
    """The code is that of the command."""
    proxy = new_proxy(redis_server)
    url = proxy.url + "?connect_timeout_ms=60000&command_timeout_ms=60000"
    with Running("run", "--lease", "10m", "job", "--", "sh", "-c", "echo $$; read x; exit 5", url=url, stdin=-1) as job:
        pid = int(job.line())
        proxy.refuse()
        tell(fired=proxy.strand())
        assert job.process.stdin
        job.process.stdin.close()
        wait_until(lambda: gone(pid) and not pathlib.Path(f"/proc/{pid}").exists())
        job.process.terminate()
        assert job.code() == 5


# ---- words


def test_a_full_stderr_does_not_stop_dlock(redis_server: Server) -> None:
    """Nobody reads it: the sentence is dropped, the command ends in time."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    with subprocess.Popen([PROGRAM, "run", *TERMS, "job", "--", "sh", "-c", "echo $$; exec sleep 600"], env=environment(redis_server.url), stdout=subprocess.PIPE, stderr=writer, text=True) as job:
        os.close(writer)
        assert job.stdout
        pid = int(job.stdout.readline())
        redis_server.command("DEL", "job")
        assert job.wait(30) == 76 and gone(pid)
    os.close(reader)


def test_a_closed_stderr(redis_server: Server) -> None:
    words = [PROGRAM, "run", *TERMS, "job", "--", "sh", "-c", "echo $$; exec sleep 600"]
    with subprocess.Popen(["sh", "-c", 'exec "$@" 2>&-', "sh", *words], env=environment(redis_server.url), stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout
        pid = int(job.stdout.readline())
        redis_server.command("DEL", "job")
        assert job.wait(30) == 76 and gone(pid)


def test_help_has_both_options() -> None:
    text = dlock("run", "--help").stdout
    assert "--best-effort" in text and "--keep-url" in text and len(text.splitlines()) <= 24
