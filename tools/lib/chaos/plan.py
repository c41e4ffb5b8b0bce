"""The sequence of faults that a seed stands for."""
import random
from dataclasses import dataclass

KILLS = {"worker": 65, "agent": 9, "head": 5, "standby": 3, "redis": 5, "driver": 13, "machine": 3}
STOPS = {"worker": 9, "agent": 4, "head": 3, "redis": 3, "driver": 3}
LINKS = {"cut": 6, "slow": 3}
OTHERS = 0.18  # stops and faults of links for each kill
# One of these at a time.
INFRASTRUCTURE = {"agent", "head", "standby", "redis", "cut", "machine"}


@dataclass
class Fault:
    pause: float     # before it
    act: str         # kill, stop, link
    what: str
    host: int
    pick: float      # which of several, 0 to 1
    seconds: float   # how long it lasts, or how long until what was killed is started again

    @property
    def alone(self):
        return self.what in INFRASTRUCTURE

    def text(self):
        return f"{self.act} {self.what} host {self.host} pick {self.pick:.3f} for {self.seconds:.2f} s"


def make(seed, kills, hosts, links):
    """Ends with the last kill."""
    random_ = random.Random(seed)
    choose = lambda table: random_.choices(list(table), list(table.values()))[0]
    plan, done = [], 0
    while done < kills:
        kill = random_.random() < 1 / (1 + OTHERS)
        link = not kill and random_.random() < sum(LINKS.values()) / sum({**STOPS, **LINKS}.values())
        act = "kill" if kill else "link" if link else "stop"
        what = choose({"kill": KILLS, "link": LINKS, "stop": STOPS}[act])
        if what == "machine" and not links:
            what = "agent"
        # The head and the driver that keeps the ledger are on host 0: it is not cut off.
        host = random_.randrange(1 if act == "link" or what == "machine" else 0, hosts)
        pause = 0.05 + 0.45 * random_.random() ** 3
        long = 0.2 + 3.8 * random_.random() ** 4
        short = random_.choice([0, 0, random_.random()])
        fault = Fault(pause, act, what, host, random_.random(), short if kill else long)
        if act == "link" and not links:
            continue
        plan.append(fault)
        done += kill
    return plan
