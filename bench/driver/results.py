"""Results: one file of raw samples, with the machine, versions and commands they came from. Reading and writing it."""

import json
import os

FORMAT = 1


def new(facts, options):
    return {"format": FORMAT, "machine": facts, "options": options, "peers": {}, "skipped": [], "samples": [],
            "system_calls": [], "failures": []}


def path_for(directory, facts):
    """<date>-<commit>.json; a number is added rather than overwriting an earlier run."""
    base = os.path.join(directory, f"{facts['date'][:10]}-{facts['commit']}")
    path, number = base + ".json", 1
    while os.path.exists(path):
        number += 1
        path = f"{base}-{number}.json"
    return path


def write(results, path):
    """One sample per line, so that a file is small and a difference between two can be read."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in _compact(results).items()) + "\n}\n")
    os.replace(path + ".new", path)


def _lines(value):
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in value) + "\n]"


def _compact(results):
    """Six digits of each figure, and each command once."""
    seen, samples = set(), []
    for sample in results["samples"]:
        key = (sample["workload"], sample["side"], sample["point"]["service"], sample["point"]["cores"])
        dropped = ("command", "load_command") if key in seen else ()
        if "command" in sample["figures"]:
            seen.add(key)
        samples.append({**sample, "figures": {
            name: _rounded(value) for name, value in sample["figures"].items() if name not in dropped}})
    return {**results, "samples": samples}


def _rounded(value):
    if not isinstance(value, float):
        return value
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def read(path):
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    if results.get("format") != FORMAT:
        raise ValueError(f"{path} is not a results file of format {FORMAT}")
    return results


def continued(earlier, facts):
    """A results file to which another part of the same run is to be added: its rows must be of the same commit."""
    if earlier["machine"]["commit"] != facts["commit"]:
        raise ValueError(f"it holds what was measured at {earlier['machine']['commit']}, this is {facts['commit']}")
    return earlier


def without_rows(results, keys):
    """Forgets rows that are about to be measured again."""
    for part in ("samples", "system_calls", "failures"):
        results[part] = [entry for entry in results[part] if key_of(entry) not in keys]


def key_of(sample):
    """What a row is: the workload and its point, hashable."""
    return sample["workload"], tuple(sorted(sample["point"].items()))


def rows(results):
    """The samples by row, in order of appearance: {(workload, point): {side: {round: figures}}}."""
    table = {}
    for sample in results["samples"]:
        sides = table.setdefault(key_of(sample), {})
        sides.setdefault(sample["side"], {})[sample["round"]] = sample["figures"]
    return table


def values(rounds, figure):
    """{round: value} of one figure, where it was measured."""
    return {number: figures[figure] for number, figures in rounds.items() if figure in figures}
