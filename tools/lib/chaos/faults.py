"""Does the faults of a plan and heals them."""
import collections
import heapq
import signal
import time

from . import programs
from .cluster import wait

PATIENCE = 60  # seconds until what was started must be there


class Trouble(Exception):
    """What must not happen."""


class Faults:
    def __init__(self, cluster, note):
        self.cluster, self.network, self.note = cluster, cluster.network, note
        self.heals = []  # (when, number, what to do, name)
        self.number = 0
        self.pending = None  # of the infrastructure: a condition that says it is back
        self.pending_since, self.pending_name = 0, ""
        self.kills, self.others = collections.Counter(), collections.Counter()
        self.skipped = 0
        self.slowest = collections.Counter()  # recovery by kind

    def run(self, plan, each_turn):
        for fault in plan:
            self._wait_until(time.monotonic() + fault.pause, each_turn)
            while fault.alone and self.pending:
                self._turn(each_turn)
            self.note(fault.text())
            getattr(self, f"_{fault.act}_{fault.what}")(fault)
        while self.heals or self.pending:
            self._turn(each_turn)

    # One turn of waiting: what is due is healed, what came back is noticed.
    def _turn(self, each_turn):
        while self.heals and self.heals[0][0] <= time.monotonic():
            heapq.heappop(self.heals)[2]()
        if self.pending and self.pending():
            kind = self.pending_name
            self.slowest[kind] = max(self.slowest[kind], time.monotonic() - self.pending_since)
            self.note(f"{kind} is back")
            self.pending = None
        if self.pending and time.monotonic() - self.pending_since > PATIENCE:
            raise Trouble(f"{self.pending_name} did not come back within {PATIENCE} s")
        each_turn()
        time.sleep(0.01)

    def _wait_until(self, moment, each_turn):
        while time.monotonic() < moment:
            self._turn(each_turn)

    def _later(self, seconds, heal):
        self.number += 1
        heapq.heappush(self.heals, (time.monotonic() + seconds, self.number, heal))

    def _await(self, name, condition):
        self.pending, self.pending_since, self.pending_name = condition, time.monotonic(), name

    def _over(self, program):
        self.cluster.ended.append(program)

    # ---- kills
    def _kill_worker(self, fault):
        workers = self.cluster.workers()
        if not workers:
            self.skipped += 1
            return
        pid = workers[int(fault.pick * len(workers))]
        programs.send(pid, signal.SIGKILL)
        self.note(f"  process {pid}")
        self.kills["worker"] += 1

    def _kill_agent(self, fault):
        old = self.cluster.agents[fault.host]
        old.kill()
        self._over(old)
        self.kills["agent"] += 1
        self._later(fault.seconds, lambda: self.cluster.start_agent(fault.host))
        self._await("agent", lambda: self._agent_is_back(fault.host, old))

    def _agent_is_back(self, host, old):
        agent = self.cluster.agents[host]
        if agent is old:
            return False
        if agent.status() is not None:  # refused: the head has not yet heard of the old one's end
            self.note(f"  n{host} was refused: {open(agent.err_path).read().strip()}")
            self._over(agent)
            self.cluster.start_agent(host)
            return False
        return agent.says("node: joined")

    def _kill_head(self, fault):
        old = self.cluster.head
        old.kill()
        self._over(old)
        self.kills["head"] += 1
        self._later(fault.seconds, self.cluster.start_head)
        self._await("head", lambda: self.cluster.head is not old and self._head_listens())

    def _head_listens(self):
        if self.cluster.head.status() is not None:
            raise Trouble("the head does not start: " + open(self.cluster.head.err_path).read())
        return self.cluster.head.says("listening on")

    def _kill_standby(self, fault):
        """Of the head while another stands by."""
        standby = self.cluster.start_head(standby=True)
        if wait(lambda: standby.says("standing by"), PATIENCE) is None:
            raise Trouble("no standby comes up")
        old = self.cluster.head
        old.kill()
        self._over(old)
        self.kills["head, standby"] += 1
        self.cluster.head, self.cluster.standby = standby, None
        self._await("standby", self._head_listens)

    def _kill_redis(self, fault):
        old = self.cluster.redis()
        for pid in old:
            programs.send(pid, signal.SIGKILL)
        self.kills["redis"] += 1
        self._await("redis", lambda: any(pid not in old for pid in self.cluster.redis()))

    def _kill_driver(self, fault):
        old = self.cluster.drivers["victim"]
        old.kill()
        self._over(old)
        self.kills["driver"] += 1
        self.cluster.start_driver("victim")

    def _kill_machine(self, fault):
        """All of a host at once, in silence: its link is cut first, so that nobody hears of the ends."""
        old = self.cluster.agents[fault.host]
        self.network.cut(fault.host)
        for program in [old, *self.cluster.drivers.values()]:
            if self.network.is_on(program.pid, fault.host):
                program.killed = True
        for pid in programs.marked(self.cluster.mark):
            if self.network.is_on(pid, fault.host):
                programs.send(pid, signal.SIGKILL)
        old.process.wait()
        self._over(old)
        self.kills["machine"] += 1

        def power_on():
            self.network.join(fault.host)
            self.cluster.start_agent(fault.host)

        self._later(0.5 + 2 * fault.seconds, power_on)
        self._await("machine", lambda: self._agent_is_back(fault.host, old))

    # ---- stops
    def _stop(self, name, pids, fault):
        for pid in pids:
            programs.send(pid, signal.SIGSTOP)
        self.others[f"stop {name}"] += 1

        def go_on():
            for pid in pids:
                if pid in programs.marked(self.cluster.mark):
                    programs.send(pid, signal.SIGCONT)

        self._later(fault.seconds, go_on)
        if fault.alone:
            over = time.monotonic() + fault.seconds + 0.1
            self._await(f"stopped {name}", lambda: time.monotonic() > over)

    def _stop_worker(self, fault):
        workers = self.cluster.workers()
        self._stop("worker", [workers[int(fault.pick * len(workers))]] if workers else [], fault)

    def _stop_agent(self, fault):
        self._stop("agent", [self.cluster.agents[fault.host].pid], fault)

    def _stop_head(self, fault):
        self._stop("head", [self.cluster.head.pid], fault)

    def _stop_redis(self, fault):
        self._stop("redis", self.cluster.redis(), fault)

    def _stop_driver(self, fault):
        self._stop("driver", [self.cluster.drivers["victim"].pid], fault)

    # ---- links
    def _link_cut(self, fault):
        self.network.cut(fault.host)
        self.others["cut link"] += 1
        self._later(fault.seconds, lambda: self.network.join(fault.host))
        over = time.monotonic() + fault.seconds + 0.1
        self._await("cut link", lambda: time.monotonic() > over)

    def _link_slow(self, fault):
        kind = self.network.shapers[int(fault.pick * len(self.network.shapers))] if self.network.shapers else None
        if kind is None:
            return
        self.network.shape(fault.host, kind)
        self.others[f"link: {kind}"] += 1
        self._later(fault.seconds, lambda: self.network.unshape(fault.host))
