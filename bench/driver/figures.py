"""How each measured figure is named and printed. Only this module knows how units are shown."""


def number(value):
    """Three significant digits, no exponent."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    if magnitude >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}" if magnitude >= 0.001 else f"{value:.1g}"


def bytes_size(value):
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(value) >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value)} B"


def microseconds(value):
    if value >= 1e6:
        return f"{number(value / 1e6)} s"
    if value >= 1e3:
        return f"{number(value / 1e3)} ms"
    return f"{number(value)} µs"


def seconds(value):
    return microseconds(value * 1e6)


# name -> (heading, how a value is printed)
ALL = {
    "cpu_us_per_request": ("CPU per request, µs", number),
    "user_us_per_request": ("user, µs", number),
    "system_us_per_request": ("system, µs", number),
    "requests_per_second": ("requests/s", number),
    "latency_p50_us": ("p50", microseconds),
    "latency_p90_us": ("p90", microseconds),
    "latency_p99_us": ("p99", microseconds),
    "latency_p99_9_us": ("p99.9", microseconds),
    "latency_p99_99_us": ("p99.99", microseconds),
    "latency_max_us": ("max", microseconds),
    "peak_memory_bytes": ("peak memory", bytes_size),
    "system_calls_per_request": ("system calls per request", number),
    "memory_per_connection_bytes": ("memory per connection", bytes_size),
    "seconds": ("time", seconds),
    "cpu_seconds": ("CPU time", seconds),
    "us_per_call": ("per call", microseconds),
    "calls_per_second": ("calls/s", number),
    "cpu_us_per_call": ("CPU per call", microseconds),
    "peak_threads": ("OS threads", lambda value: f"{value:,.0f}"),
    "seconds_per_mebibyte": ("time per MiB", seconds),
    "megabits_per_second": ("Mbit/s", number),
    "memory_growth_bytes": ("memory for the calls", bytes_size),
    "kernel_memory_bytes": ("kernel memory", bytes_size),
    "us_per_event": ("CPU per event", microseconds),
    "events_per_second": ("events/s", number),
}

# The columns of the tables, by kind of workload. The primary figure comes before them, with its spread.
SHOWN = {
    "closed": ["user_us_per_request", "system_us_per_request", "requests_per_second", "latency_p50_us",
               "latency_p99_us", "latency_p99_9_us", "latency_max_us", "peak_memory_bytes"],
    "open": ["requests_per_second", "cpu_us_per_request", "latency_p50_us", "latency_p90_us", "latency_p99_9_us",
             "latency_p99_99_us", "latency_max_us", "peak_memory_bytes"],
    "idle": ["peak_memory_bytes"],
    "timers": ["cpu_seconds", "peak_memory_bytes"],
    "calls": ["cpu_us_per_call", "calls_per_second", "peak_threads", "memory_growth_bytes", "kernel_memory_bytes"],
    "toolkit": ["us_per_call", "calls_per_second", "cpu_us_per_call", "peak_threads", "peak_memory_bytes"],
    "link": ["megabits_per_second", "cpu_us_per_request", "peak_memory_bytes"],
    "simulated": ["events_per_second", "memory_per_connection_bytes"],
}
