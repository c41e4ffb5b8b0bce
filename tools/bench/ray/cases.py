"""The cases of `tools/bench/versus_ray` in Ray's Python API; prints one JSON object a case."""
import json
import statistics
import time

import numpy
import ray

OUTSTANDING = 1000


@ray.remote(num_cpus=0)
class Echo:
    def add(self, x):
        return x + 1


@ray.remote(num_cpus=0)
class Caller:
    def __init__(self):
        self.echo = Echo.remote()
        ray.get(self.echo.add.remote(0))

    def run(self, batches):
        outstanding(self.echo, batches)
        return batches * OUTSTANDING


def outstanding(echo, batches):
    for _ in range(batches):
        ray.get([echo.add.remote(i) for i in range(OUTSTANDING)])


def rate(work, calls):
    begin = time.perf_counter()
    work()
    return calls / (time.perf_counter() - begin)


def put(data):
    """GB/s. The object is not kept, so that the next one finds its memory."""
    begin = time.perf_counter()
    kept = ray.put(data)
    took = time.perf_counter() - begin
    del kept
    return data.nbytes / took / 1e9


def report(case, value):
    print(json.dumps({"case": case, "value": value}), flush=True)


def main():
    ray.init(num_cpus=2, object_store_memory=3_000_000_000, include_dashboard=False, log_to_driver=False, logging_level="error")
    time.sleep(2)  # the node has just joined
    data = numpy.ones(800_000_000, numpy.uint8)
    report("put_cold", put(data))
    time.sleep(1)  # the first one's memory is given back
    report("put", statistics.median(put(data) for _ in range(3)))
    del data
    echo = Echo.remote()
    ray.get([echo.add.remote(i) for i in range(OUTSTANDING)])
    calls = 2000
    report("sync", rate(lambda: [ray.get(echo.add.remote(i)) for i in range(calls)], calls))
    report("async", rate(lambda: outstanding(echo, 10), 10 * OUTSTANDING))

    callers = [Caller.remote() for _ in range(2)]
    ray.get([caller.run.remote(1) for caller in callers])
    report("n_n", rate(lambda: ray.get([caller.run.remote(8) for caller in callers]), 16 * OUTSTANDING))

    count = 100
    kept = []

    def create():
        kept.extend(Echo.remote() for _ in range(count))
        ray.get([actor.add.remote(1) for actor in kept])

    report("spawn", rate(create, count))


if __name__ == "__main__":
    main()
