"""The result of a run, as JSON and as a table."""
import time


def result(run, verdict, ledgers, burst, errors, bad):
    steady = ledgers.get("steady", {})
    faults = run.faults
    return {
        "seed": run.options.seed,
        "hosts": run.options.hosts,
        "namespaces": bool(run.network and run.network.links),
        "kills": dict(faults.kills) if faults else {},
        "kills_in_all": sum(faults.kills.values()) if faults else 0,
        "other_faults": dict(faults.others) if faults else {},
        "skipped": faults.skipped if faults else 0,
        "slowest_recovery_s": {k: round(v, 3) for k, v in faults.slowest.items()} if faults else {},
        "drivers_ended_by_themselves": dict(run.alone),
        "calls": steady,
        "calls_of_last_victim": ledgers.get("victim", {}),
        "burst": burst,
        "orphans": verdict.orphans if verdict else None,
        "returned_s": round(verdict.returned, 3) if verdict else None,
        "times_s": verdict.figures if verdict else {},
        "errors_in_logs": dict(errors),
        "seconds": round(time.monotonic() - run.begin, 1),
        "wrong": bad,
        "logs": run.folder,
    }


def table(r):
    counts = lambda table: ", ".join(f"{name} {count}" for name, count in sorted(table.items())) or "none"
    calls = r["calls"]
    rows = [
        ("seed", f"{r['seed']}, {r['hosts']} hosts" + ("" if r["namespaces"] else " (on one, without links)")),
        ("kills", f"{r['kills_in_all']}: {counts(r['kills'])}"),
        ("other faults", counts(r["other_faults"])),
        ("slowest recovery", ", ".join(f"{name} {s} s" for name, s in r["slowest_recovery_s"].items()) or "none"),
    ]
    if r["drivers_ended_by_themselves"]:
        rows.append(("victims that ended by themselves", counts(r["drivers_ended_by_themselves"])))
    if calls:
        rows += [
            ("calls", f"{calls['made']} made, {calls['acknowledged']} acknowledged, {calls['hung']} hung"),
            ("failed", counts(calls["failed"])),
            ("against the ledger", ", ".join(f"{kind} {calls[kind]}" for kind in ("lost", "twice", "disorder", "again"))),
            ("longest call", f"{calls['longest_ms'] / 1000:.2f} s"),
        ]
    for sums in r["burst"]:
        rows.append(("burst", f"{sums['made']} made, {sums['acknowledged']} acknowledged, failed: {counts(sums['failed'])}, "
                              f"hung {sums['hung']}, twice {sums['twice']}, disorder {sums['disorder']}"))
    rows += [
        ("orphans", r["orphans"]),
        ("all returned after", f"{r['returned_s']} s (goal 5)"),
        ("times", ", ".join(f"{name} {s} s" for name, s in r["times_s"].items())),
    ]
    for text, count in sorted(r["errors_in_logs"].items(), key=lambda one: -one[1])[:10]:
        rows.append((f"in logs, {count} times", text))
    rows += [("wrong", text) for text in r["wrong"]]
    rows.append(("verdict", f"{'failed' if r['wrong'] else 'ok'} after {r['seconds']} s"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
