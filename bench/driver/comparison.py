"""Compares two results files: what became faster or slower by more than noise."""

from . import estimate, figures, results
from .workloads import BY_NAME, label

# Runs on different days differ by a few per cent although the program is the same.
NOISE = 0.05
# The figures that are compared besides the primary one, by kind of workload.
COMPARED = {"closed": ["latency_p99_us"], "open": ["latency_p99_9_us"]}


def changes(old, new):
    """One dictionary for every figure that both files have. `verdict` is -1 for better, 1 for worse, 0 for within noise."""
    found = []
    old_rows, new_rows = results.rows(old), results.rows(new)
    for key, new_sides in new_rows.items():
        workload = BY_NAME.get(key[0])
        if workload is None or key not in old_rows:
            continue
        for side, new_rounds in new_sides.items():
            if side not in old_rows[key]:
                continue
            for figure in [workload.primary, *COMPARED.get(workload.kind, [])]:
                before = list(results.values(old_rows[key][side], figure).values())
                after = list(results.values(new_rounds, figure).values())
                ratio = estimate.unpaired_ratio(after, before)
                if ratio:
                    found.append({
                        "workload": key[0], "point": dict(key[1]), "side": side, "figure": figure,
                        "before": estimate.median(before), "after": estimate.median(after), "ratio": ratio,
                        "verdict": estimate.beyond(ratio, NOISE), "ours": new["peers"][side]["ours"],
                    })
    return found


def _line(change):
    show = figures.ALL[change["figure"]][1]
    ratio = change["ratio"]
    interval = " (too few samples for an interval)"
    if ratio["low"] is not None:
        interval = f" [{ratio['low']:.2f}–{ratio['high']:.2f}]"
    return (f"  {label(change['workload'], change['point'])}: {change['side']}, "
            f"{figures.ALL[change['figure']][0]}: {show(change['before'])} -> {show(change['after'])}, "
            f"x{ratio['ratio']:.2f}{interval}")


def text(old, new):
    """The comparison as text: Millrace first, then the peers, whose figures should not have changed."""
    found = changes(old, new)
    lines = []
    for name, data in (("A", old), ("B", new)):
        facts = data["machine"]
        lines.append(f"{name}: {facts['date']}, {facts['commit']}, {facts['processors']} x {facts['processor']}, "
                     f"Linux {facts['kernel']}")
    if any(old["machine"][field] != new["machine"][field] for field in ("processor", "processors", "kernel")):
        lines.append("The machines differ, so changes say little about the program.")
    for title, verdict, ours in (
            ("Slower or larger than before", 1, True), ("Faster or smaller than before", -1, True),
            ("Peers that changed (so the machine did, not Millrace)", None, False)):
        chosen = [c for c in found if c["ours"] == ours and (c["verdict"] == verdict if ours else c["verdict"] != 0)]
        if chosen:
            lines += ["", f"{title}:"] + [_line(change) for change in chosen]
    still = sum(1 for change in found if change["verdict"] == 0)
    lines += ["", f"{len(found)} figures compared; {still} differ by less than {NOISE:.0%}, or have an interval that "
                  "contains 1, or have too few samples to decide."]
    return "\n".join(lines)
