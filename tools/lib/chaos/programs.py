"""Programs started by chaos, and all processes that carry its mark in their environment."""
import os
import signal
import subprocess
import time

MARK = "TROUPE_CHAOS"


class Program:
    """One started program; its output goes to files in the folder of logs."""

    def __init__(self, kind, name, command, env, logs, feed=False):
        self.kind, self.name = kind, name
        self.killed = False
        number = 0
        while os.path.exists(path := f"{logs}/{name}.{number}"):
            number += 1
        self.out_path, self.err_path = path, path + ".err"
        self.out, self.read_at = open(path, "wb"), 0
        self.process = subprocess.Popen(command, env=env, stdout=self.out, stderr=open(self.err_path, "wb"),
                                        stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
                                        start_new_session=True)
        self.pid = self.process.pid
        self.started = time.monotonic()

    def text(self):
        with open(self.out_path, errors="replace") as file:
            return file.read()

    def new_lines(self):
        """The complete lines of output since the last call."""
        with open(self.out_path, "rb") as file:
            file.seek(self.read_at)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.read_at += len(data)
        return data.decode(errors="replace").splitlines()

    def says(self, text):
        return text in self.text()

    def tell(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def status(self):
        """None while it runs; 128 + the signal that ended it."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def kill(self):
        self.killed = True
        send(self.pid, signal.SIGKILL)
        self.process.wait()


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except OSError:
        return False


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}
    except OSError:
        return {}


def state(pid):
    """The letter of the process's state; '' when there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def marked(mark):
    """{pid: environment} of the living processes with this mark, which is the run's folder. A redis-server writes its
    title over its environment: it has the folder in its title."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        variables = environment(entry)
        title = command_line(entry) if MARK not in variables else ""
        ours = variables.get(MARK) == mark or "redis-server" in title and mark + "/" in title
        if ours and state(entry) not in ("", "Z", "X"):
            found[int(entry)] = variables
    return found


def open_files(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0
