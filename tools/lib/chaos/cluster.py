"""The cluster under test: a head, perhaps a standby, a node on each host, and drivers."""
import json
import os
import secrets
import subprocess
import time

from . import programs


# Seconds that a restarted head waits for programs that were killed meanwhile: before that nothing is returned.
GRACE = "4"


class Cluster:
    def __init__(self, network, folder, bin_dir):
        self.network, self.folder, self.bin = network, folder, bin_dir
        self.logs, self.records, self.mark = folder + "/logs", folder + "/records", folder
        os.makedirs(self.logs)
        os.makedirs(self.records)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}
        self.env.update({"TROUPE_HOME": folder + "/home", programs.MARK: self.mark, "TMPDIR": folder,
                         "TROUPE_TOKEN": secrets.token_hex(32)})
        self.head = self.standby = None
        self.agents = [None] * network.hosts
        self.drivers = {}  # "steady" keeps the ledger that counts; "victim" may be killed
        self.ended = []    # programs that are over

    def start(self, kind, name, host, words, feed=False):
        return programs.Program(kind, name, self.network.command(host, words), self.env, self.logs, feed)

    def start_head(self, standby=False):
        words = [self.bin + "/troupe", "head", "--host", self.network.address(0), "--grace", GRACE]
        program = self.start("head", "head", 0, words + (["--standby"] if standby else []))
        if standby:
            self.standby = program
        else:
            self.head = program
        return program

    def start_agent(self, host):
        words = [self.bin + "/troupe", "node", "--name", f"n{host}", "--host", self.network.address(host),
                 "--cpus", "8", "--gpus", "2", "--memory", "2GiB", "--resource", "token=4"]
        self.agents[host] = self.start("agent", f"n{host}", host, words)
        return self.agents[host]

    def start_driver(self, name):
        host = 0 if name == "steady" else self.network.hosts - 1
        nodes = ",".join(f"n{host}" for host in range(self.network.hosts))
        self.drivers[name] = self.start("driver", name, host, [self.bin + "/chaos_load", self.records, nodes], True)
        return self.drivers[name]

    def programs(self):
        return [p for p in [self.head, self.standby, *self.agents, *self.drivers.values()] if p]

    def troupe(self, *words, seconds=20):
        """The standard output, or None when it failed."""
        command = self.network.command(0, [self.bin + "/troupe", *words])
        env = {name: value for name, value in self.env.items() if name != programs.MARK}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def list(self, what):
        text = self.troupe("list", what, "--json", *(["--limit", "0"] if what == "actors" else []))
        return json.loads(text) if text else None

    def workers(self):
        """The processes that host actors, and those they are forked from, the oldest first."""
        return sorted(pid for pid, env in programs.marked(self.mark).items() if "TROUPE_ROLE" in env)

    def redis(self):
        return [pid for pid in programs.marked(self.mark) if "redis-server" in programs.command_line(pid)]

    def end_all(self):
        for _ in range(200):
            left = programs.marked(self.mark)
            for pid in left:
                programs.send(pid, 9)
            for program in self.programs() + self.ended:
                program.process.poll()
            if not left:
                return
            time.sleep(0.02)


def wait(condition, seconds, pause=0.02):
    """The seconds it took, or None when the condition did not come."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            return None
        time.sleep(pause)
    return time.monotonic() - begin
