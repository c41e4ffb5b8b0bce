"""After the faults: every call ends, and everything returns to what it was."""
import collections
import json
import os
import re
import time

from . import programs
from .cluster import wait

GOAL = 5       # seconds until everything is returned
PATIENCE = 30  # and when it counts as never
CRASH = re.compile(r"SIGSEGV|SIGABRT|SIGBUS|SIGILL|SIGFPE|terminate called|AddressSanitizer|ThreadSanitizer|Assertion")


class Verdict:
    def __init__(self, cluster):
        self.cluster = cluster
        self.bad = []       # what must not be
        self.figures = {}
        self.orphans = 0
        self.returned = 0.0  # seconds, the longest

    def wrong(self, text):
        self.bad.append(text)

    def _within(self, what, condition, describe):
        took = wait(condition, PATIENCE)
        self.figures[what] = None if took is None else round(took, 3)
        if took is None:
            self.wrong(f"{what}: not within {PATIENCE} s: {describe()}")
        self.returned = max(self.returned, PATIENCE if took is None else took)

    def answer(self, driver, command, key, seconds):
        """Sends a command to a driver and returns its answer of this key."""
        if command:
            driver.new_lines()
            driver.tell(command)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in driver.new_lines():
                if line.startswith("{") and key in (found := json.loads(line)):
                    return found
            if driver.status() is not None:
                break
            time.sleep(0.01)
        self.wrong(f"driver {driver.name}: no answer to {command} (status {driver.status()})")
        return None

    def nodes_back(self):
        self._within("nodes back", self._all_alive, lambda: str(self.cluster.list("nodes")))

    def _all_alive(self):
        nodes = self.cluster.list("nodes") or []
        names = sorted(node["name"] for node in nodes if node["alive"])
        return names == [f"n{host}" for host in range(self.cluster.network.hosts)]

    def calls(self):
        """All calls have ended as they must; each node serves again."""
        ledgers = {}
        for name, driver in self.cluster.drivers.items():
            driver.tell("quiet")
        for name, driver in self.cluster.drivers.items():
            if answer := self.answer(driver, "", "ledger", 90):
                ledgers[name] = answer["ledger"]
                took = answer["quiet_ms"] / 1000
                self.figures[f"calls of {name} ended"] = took
                self.returned = max(self.returned, took)
                for kind in ("hung", "lost", "twice", "disorder", "again"):
                    if ledgers[name][kind]:
                        self.wrong(f"driver {name}: {ledgers[name][kind]} calls {kind}")
        steady = self.cluster.drivers["steady"]
        if (answer := self.answer(steady, "probe", "probe", 150)) and answer["probe"] != "ok":
            self.wrong(f"nodes that do not serve: {answer['probe']}")
        burst = self.answer(steady, "burst", "burst", 300)
        for sums in burst["burst"] if burst else []:
            if sums["hung"] + sums["lost"] + sums["twice"] + sums["disorder"] + sums["again"]:
                self.wrong(f"burst: {sums}")
            if sums["acknowledged"] + sum(sums["failed"].values()) != sums["made"]:
                self.wrong(f"burst: not all ended: {sums}")
        return ledgers, burst["burst"] if burst else []

    def drivers_end(self):
        for driver in self.cluster.drivers.values():
            driver.tell("end")
        for name, driver in self.cluster.drivers.items():
            self._within(f"driver {name} ended", lambda: driver.status() is not None, lambda: "it runs")
            if driver.status() not in (0, None):
                self.wrong(f"driver {name} ended with {driver.status()}")

    def resources(self):
        self._within("resources returned", lambda: not self._missing(), lambda: "; ".join(self._missing()))

    def _missing(self):
        nodes = self.cluster.list("nodes")
        if nodes is None:
            return ["the head does not answer"]
        alive = [node for node in nodes if node["alive"]]
        missing = [f"{node['name']} has {node['actors']} actors, free {node['free']} of {node['total']}"
                   for node in alive if node["actors"] or node["free"] != node["total"]]
        return missing if self._all_alive() else [*missing, f"nodes are {[node['name'] for node in alive]}"]

    def no_actors(self):
        actors = self.cluster.list("actors")
        if actors is None:
            self.wrong("troupe list actors failed")
        left = [a for a in actors or [] if a["phase"] != "dead"]
        if left:
            self.wrong(f"{len(left)} actors are left: {left[0]}")
        jobs = [j for j in self.cluster.list("jobs") or [] if j["phase"] != "ended"]
        if jobs:
            self.wrong(f"{len(jobs)} jobs are left: {jobs[0]}")

    def processes(self, what, allowed):
        """None with our mark but these, and their own redis-server."""
        def left():
            return [pid for pid in programs.marked(self.cluster.mark)
                    if pid not in allowed and not (allowed and "redis-server" in programs.command_line(pid))]
        self._within(what, lambda: not left(),
                     lambda: "; ".join(f"{pid} {programs.command_line(pid)}" for pid in left()))
        self.orphans += len(left())

    def descriptors(self, before):
        """Head and agents hold no more files than when nothing ran."""
        def more():
            now = {p.name: programs.open_files(p.pid) for p in [self.cluster.head, *self.cluster.agents]}
            return [f"{name}: {now[name]}, at the start {before[name]}" for name in now
                    if now[name] > before[name] + 2]
        self._within("files closed", lambda: not more(), lambda: "; ".join(more()))

    def down(self):
        begin = time.monotonic()
        if self.cluster.troupe("down", seconds=40) is None:
            self.wrong("troupe down failed")
        self.figures["down"] = round(time.monotonic() - begin, 3)
        for program in [self.cluster.head, *self.cluster.agents]:
            if wait(lambda: program.status() is not None, PATIENCE) is None:
                self.wrong(f"{program.name} does not end")
            elif program.status() != 0:
                self.wrong(f"{program.name} ended with {program.status()}")

    def files(self):
        """In the run's folders only logs are left, and nothing in shared memory."""
        home = self.cluster.folder + "/home"
        kept = re.compile(r"/home/(token|head/lock|head/redis/.*|nodes/[^/]+/(lock|logs/.*))$")
        left = [os.path.join(where, name) for where, _, names in os.walk(home) for name in names]
        left = [path for path in left if not kept.search(path)]
        left += [path for path in (os.path.join(self.cluster.folder, name) for name in os.listdir(self.cluster.folder))
                 if os.path.basename(path) not in ("home", "logs", "records", "faults")]
        if left:
            self.wrong(f"{len(left)} files are left: {' '.join(left[:5])}")

    def shared_memory(self, before):
        if left := sorted(set(os.listdir("/dev/shm")) - set(before)):
            self.wrong(f"left in /dev/shm: {' '.join(left[:5])}")

    def sockets(self):
        self._within("sockets closed", lambda: not self.cluster.network.sockets(),
                     lambda: "; ".join(self.cluster.network.sockets()[:5]))

    def logs(self):
        """Crashes, and how often each error stands in the logs."""
        errors = collections.Counter()
        for folder in (self.cluster.logs, self.cluster.folder + "/home/nodes"):
            for where, _, names in os.walk(folder):
                for name in names:
                    if not os.path.isfile(os.path.join(where, name)):
                        continue
                    with open(os.path.join(where, name), errors="replace") as file:
                        for line in file:
                            if CRASH.search(line):
                                self.wrong(f"crash: {where}/{name}: {line.strip()[:300]}")
                            if " error " in line or "internal:" in line or "ledger:" in line:
                                errors[re.sub(r"\d+", "N", line[line.find(" error ") + 1:].strip())[:200]] += 1
        for program in self.cluster.ended + self.cluster.programs():
            if program.status() is not None and program.status() >= 128 and not program.killed:
                self.wrong(f"{program.name} ended with {program.status()}, which chaos did not do")
        return errors
