"""Reads and writes results files: raw samples, with the machine, the versions and the commands that they came from."""

import json
import os

FORMAT = 1


def new(facts, options):
    return {"format": FORMAT, "machine": facts, "options": options, "peers": {}, "skipped": [], "samples": [],
            "system_calls": [], "failures": []}


def path_for(directory, facts):
    """<date>-<commit>.json, with a number added if that file exists."""
    base = os.path.join(directory, f"{facts['date'][:10]}-{facts['commit']}")
    path, number = base + ".json", 1
    while os.path.exists(path):
        number += 1
        path = f"{base}-{number}.json"
    return path


def write(results, path):
    """One sample per line, so that the file is small and a diff of two files is readable."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in _compact(results).items()) + "\n}\n")
    os.replace(path + ".new", path)


def _lines(value):
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in value) + "\n]"


def _compact(results):
    """Keeps six digits of each figure, and each command only once."""
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
        raise ValueError(f"{path} is not a results file of format {FORMAT}; write one with bench/run")
    return results


def continued(earlier, facts, whole_workloads):
    """The earlier results, to which another part is added. If they are of another commit, the part must be of whole workloads, or their
    rows could not be compared. The machine must be the same."""
    if earlier["machine"]["commit"] != facts["commit"]:
        if not whole_workloads:
            raise ValueError(f"the results file is of commit {earlier['machine']['commit']}, but this is {facts['commit']}; measure whole "
                             "workloads, or name a new file with --into")
        differing = [name for name in ("processor", "processors", "kernel") if earlier["machine"][name] != facts[name]]
        if differing:
            raise ValueError(f"the results file is of another machine: {', '.join(differing)}; name a new file with --into")
    return earlier


def without_rows(results, keys):
    """Removes rows that are about to be measured again."""
    for part in ("samples", "system_calls", "failures"):
        results[part] = [entry for entry in results[part] if key_of(entry) not in keys]


def note_later(results, names, facts):
    """Removes all rows of workloads that are about to be measured at another commit than the rest, and notes when that is."""
    later = results.setdefault("later", {})
    for name in names:
        later.pop(name, None)
        if facts["commit"] != results["machine"]["commit"]:
            later[name] = {key: facts[key] for key in ("date", "commit", "load_average")}
            for part in ("samples", "system_calls", "failures"):
                results[part] = [entry for entry in results[part] if entry["workload"] != name]
    if not later:
        del results["later"]


def key_of(sample):
    """The key of a sample's row: its workload and its point, hashable."""
    return sample["workload"], tuple(sorted(sample["point"].items()))


def rows(results):
    """The samples by row, in order of appearance: {(workload, point): {side: {round: figures}}}."""
    table = {}
    for sample in results["samples"]:
        sides = table.setdefault(key_of(sample), {})
        sides.setdefault(sample["side"], {})[sample["round"]] = sample["figures"]
    return table


def values(rounds, figure):
    """{round: value} of one figure, for the rounds that measured it."""
    return {number: figures[figure] for number, figures in rounds.items() if figure in figures}
