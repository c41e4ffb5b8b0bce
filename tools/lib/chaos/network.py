"""Hosts: network namespaces joined by a bridge; without them, all in one."""
import os
import subprocess


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class OneHost:
    """No namespaces: links cannot be cut."""
    links = False
    shapers = ()

    def __init__(self, hosts):
        self.hosts = hosts

    def address(self, host):
        return "127.0.0.1"

    def command(self, host, words):
        return words

    def heal(self):
        pass

    def sockets(self):
        return []

    def remove(self):
        pass


class Namespaces:
    """Host h (0, 1, …) is the namespace TAG-h with the address 10.93.0.(h + 1); TAG-s holds the bridge."""
    links = True

    def __init__(self, hosts, tag):
        self.hosts, self.tag, self.switch = hosts, tag, f"{tag}-s"
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "name", "hub0", "type", "bridge")
            ip("-n", self.switch, "link", "set", "hub0", "up")
            for host in range(hosts):
                ip("netns", "add", self.space(host))
                ip("link", "add", "name", f"v{host}", "netns", self.switch, "type", "veth", "peer", "name", "eth",
                   "netns", self.space(host))
                ip("-n", self.switch, "link", "set", f"v{host}", "master", "hub0")
                ip("-n", self.switch, "link", "set", f"v{host}", "up")
                ip("-n", self.space(host), "addr", "add", f"{self.address(host)}/24", "dev", "eth")
                ip("-n", self.space(host), "link", "set", "lo", "up")
                ip("-n", self.space(host), "link", "set", "eth", "up")
            self.shapers = [kind for kind, words in SHAPERS.items() if self._shaped(0, words)]
            self.heal()
        except Exception:
            self.remove()
            raise

    def space(self, host):
        return f"{self.tag}-{host}"

    def address(self, host):
        return f"10.93.0.{host + 1}"

    def command(self, host, words):
        # Not `ip netns exec`: it would give each program a mount namespace of its own, a machine of its own.
        return ["nsenter", f"--net=/run/netns/{self.space(host)}", *words]

    def is_on(self, pid, host):
        try:
            return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat(f"/run/netns/{self.space(host)}").st_ino
        except OSError:
            return False

    def cut(self, host):
        ip("-n", self.switch, "link", "set", f"v{host}", "down")

    def join(self, host):
        ip("-n", self.switch, "link", "set", f"v{host}", "up")

    def _shaped(self, host, words):
        return subprocess.run(["tc", "-n", self.switch, "qdisc", "replace", "dev", f"v{host}", "root", *words],
                              capture_output=True).returncode == 0

    def shape(self, host, kind):
        self._shaped(host, SHAPERS[kind])

    def unshape(self, host):
        subprocess.run(["tc", "-n", self.switch, "qdisc", "del", "dev", f"v{host}", "root"], capture_output=True)

    def heal(self):
        for host in range(self.hosts):
            self.unshape(host)
            self.join(host)

    def sockets(self):
        """The open sockets of all hosts, but for those that no process has: the kernel is still taking their leave."""
        found = []
        for host in range(self.hosts):
            for table in ("tcp", "unix"):
                text = subprocess.run(self.command(host, ["cat", f"/proc/net/{table}"]), capture_output=True,
                                      text=True).stdout
                for line in text.splitlines()[1:]:
                    if table != "tcp" or line.split()[9] != "0":  # its inode
                        found.append(f"host {host}: {table} {line.strip()}")
        return found

    def remove(self):
        for space in [self.switch, *(self.space(host) for host in range(self.hosts))]:
            ip("netns", "del", space, check=False)


# Loss and delay: netem where the kernel has it; a narrow link delays, and drops what does not fit its queue.
SHAPERS = {
    "loss": ["netem", "loss", "10%"],
    "delay": ["netem", "delay", "50ms", "20ms"],
    "narrow": ["tbf", "rate", "2mbit", "burst", "8kb", "latency", "100ms"],
}


def available():
    return os.geteuid() == 0 and subprocess.run(
        "ip netns add tc-try$$ && ip -n tc-try$$ link add name hub0 type bridge; s=$?; ip netns del tc-try$$; exit $s",
        shell=True, capture_output=True).returncode == 0
