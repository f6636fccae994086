"""A fleet on one machine: the metrics of many simulated nodes, scraped by one real
Prometheus. What a node costs, and from that what a monitoring system needs for many."""
import pathlib
import re
import subprocess
import sys
import time

from .common import BenchError, cpu_seconds, duration, median, rate, resident_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import monitoring  # noqa: E402

PORT = 9410
PROCESSES, GPUS = 16, 8
QUERIES = (
    ("GPU time per pod",
     "sum by (namespace, pod) (rate(rocattach_target_gpu_time_seconds_total[5m]))"),
    ("GPU time of the fleet", "sum(rate(rocattach_gpu_time_seconds_total[5m]))"),
    ("the ten busiest kernels by name",
     "topk(10, sum by (kernel) (rate(rocattach_kernel_time_seconds_total[5m]))) "
     "* on (kernel) group_left (name) max by (kernel, name) (rocattach_kernel_info)"),
    ("GPU memory per pod",
     "sum by (namespace, pod, gpu) (rocattach_workload_gpu_memory_bytes)"),
    ("p99 of dispatches, one node",
     "histogram_quantile(0.99, sum by (le) (rate("
     'rocattach_dispatch_duration_seconds_bucket{instance="127.1.0.1:9410"}[5m])))'),
)


def instance(number):
    """As bench_fleet_server numbers its addresses."""
    return f"127.1.{number // 250}.{number % 250 + 1}:{PORT}"


class Fleet:
    """Simulated nodes, and a Prometheus that scrapes them."""

    def __init__(self, bench, name, nodes, interval):
        self.nodes, self.interval = nodes, interval
        self.server = subprocess.Popen(
            [bench.program("bench/bench_fleet_server"), str(nodes), str(PROCESSES),
             str(GPUS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not self.server.stdout.readline().startswith("ready=1"):
            raise BenchError("bench_fleet_server did not start")
        targets = ",".join(f"'{instance(i)}'" for i in range(nodes))
        self.folder = bench.scratch / name
        self.prometheus = monitoring.start_prometheus(
            self.folder,
            f"global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s}}\n"
            "scrape_configs:\n"
            "- job_name: fleet\n"
            "  honor_labels: true\n"
            f"  static_configs: [{{targets: [{targets}]}}]\n",
            "--web.enable-admin-api")

    def __enter__(self):
        if not monitoring.eventually(
                lambda: self.prometheus.value("sum(up)") == self.nodes,
                60 + 4 * self.interval):
            raise BenchError("not all nodes are scraped: " +
                             self.prometheus.log_text()[-400:])
        return self

    def __exit__(self, *_):
        self.prometheus.stop()
        self.server.stdin.close()
        self.server.wait()

    def own(self, metric):
        """A metric of Prometheus's own, all of its series together: which labels it has
        depends on the version."""
        found = re.findall(rf"^{metric}(?:{{[^}}]*}})? (\S+)$",
                           self.prometheus.get("/metrics"), re.MULTILINE)
        if not found:
            raise BenchError(f"Prometheus has no {metric}")
        return sum(float(value) for value in found)


def measure_scrapes(bench, nodes, interval):
    figures = {"nodes": nodes, "interval_s": interval}
    with Fleet(bench, "fleet", nodes, interval) as fleet:
        prometheus = fleet.prometheus
        # What the first scrapes cost is not what later ones do.
        begin, cpu = time.monotonic(), cpu_seconds(prometheus.pid)
        samples = fleet.own("prometheus_tsdb_head_samples_appended_total")
        time.sleep((2 if bench.quick else 6) * interval)
        took = time.monotonic() - begin
        figures["cpu_share"] = (cpu_seconds(prometheus.pid) - cpu) / took
        figures["samples_per_second"] = \
            (fleet.own("prometheus_tsdb_head_samples_appended_total") - samples) / took
        figures["resident_bytes"] = resident_bytes(prometheus.pid)
        figures["series"] = fleet.own("prometheus_tsdb_head_series")
        figures["samples_per_node"] = prometheus.value("avg(scrape_samples_scraped)")
        figures["up"] = prometheus.value("sum(up)")
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            figures[f"scrape_{name}_s"] = \
                prometheus.value(f"quantile({q}, scrape_duration_seconds)")
        figures["queries"] = {}
        for what, query in QUERIES:
            latencies = []
            for _ in range(2 if bench.quick else 5):
                start = time.monotonic()
                results = prometheus.query(query)
                latencies.append(time.monotonic() - start)
            if not results:
                raise BenchError(f"a query had no result: {query}")
            figures["queries"][what] = {"seconds": median(latencies),
                                        "results": len(results)}
        figures["bytes_per_node"] = len(node_page())
    return figures


def node_page():
    return subprocess.run(["curl", "-s", f"http://{instance(0)}/metrics"],
                          capture_output=True, check=True).stdout


def measure_disk(bench):
    """Bytes of a sample in a block, where a series has as many samples as a chunk."""
    nodes, seconds = (2, 30) if bench.quick else (10, 130)
    with Fleet(bench, "disk", nodes, 1) as fleet:
        time.sleep(seconds)
        done = subprocess.run(
            ["curl", "-s", "-X", "POST",
             f"http://{fleet.prometheus.address}/api/v1/admin/tsdb/snapshot"],
            capture_output=True, text=True, check=True)
        if "success" not in done.stdout:
            raise BenchError(f"Prometheus made no snapshot: {done.stdout}")
        samples = fleet.own("prometheus_tsdb_head_samples_appended_total")
        series = fleet.own("prometheus_tsdb_head_series")
        files = list((fleet.folder / "data/snapshots").rglob("*"))
    chunks = sum(f.stat().st_size for f in files if f.parent.name == "chunks")
    index = sum(f.stat().st_size for f in files if f.name == "index")
    return {"bytes_per_sample": chunks / samples, "index_bytes_per_series": index / series}


def for_many(figures, disk, nodes, interval):
    """What `nodes` nodes need at this interval, from what the measured ones did."""
    scale = nodes / figures["nodes"]
    series = figures["series"] * scale
    samples = series / interval
    return {
        "series": series, "samples_per_second": samples,
        "network_bytes_per_second": figures["bytes_per_node"] * nodes / interval,
        "cpu": figures["cpu_share"] / figures["samples_per_second"] * samples,
        "memory_bytes": figures["resident_bytes"] / figures["series"] * series,
        "disk_bytes_per_day": 86400 * samples * disk["bytes_per_sample"] +
                              # Blocks of a day, at most.
                              series * disk["index_bytes_per_series"],
    }


def run(bench):
    missing = monitoring.missing_programs("prometheus", "curl", "setpriv")
    if missing:
        print(f"\nfleet: {', '.join(missing)}: not installed")
        return
    nodes = bench.nodes or (20 if bench.quick else 1000)
    interval = 5 if bench.quick and nodes <= 100 else 15
    figures = measure_scrapes(bench, nodes, interval)
    disk = measure_disk(bench)
    rows = [
        ("nodes that were up", f"{figures['up']:.0f} of {nodes}", "", "", "all", figures),
        ("samples of a scrape", f"{figures['samples_per_node']:.0f}", "", "", "", {}),
        ("bytes of a scrape", f"{figures['bytes_per_node'] / 1e3:.0f} kB", "", "", "", {}),
        ("duration of a scrape", f"{duration(1e9 * figures['scrape_p50_s'])}, "
         f"p99 {duration(1e9 * figures['scrape_p99_s'])}", "", "", "", {}),
        ("Prometheus: series", f"{figures['series'] / 1e3:.0f} k", "", "", "", {}),
        ("Prometheus: samples", f"{rate(figures['samples_per_second'])}", "", "", "", {}),
        ("Prometheus: processor time", f"{100 * figures['cpu_share']:.0f} % of a core",
         "", "", "", {}),
        ("Prometheus: resident memory",
         f"{figures['resident_bytes'] / 2**20:.0f} MiB, "
         f"{figures['resident_bytes'] / figures['series']:.0f} bytes a series", "", "", "",
         {}),
        ("Prometheus: disk", f"{disk['bytes_per_sample']:.2f} bytes a sample, "
         f"{disk['index_bytes_per_series']:.0f} a series and block", "", "", "", disk),
    ]
    for what, query in figures["queries"].items():
        rows.append((f"query: {what}", f"{duration(1e9 * query['seconds'])}, "
                     f"{query['results']} results", "", "", "", query))
    bench.table("fleet", f"{nodes} nodes of {GPUS} GPUs and {PROCESSES} processes, "
                f"scraped every {interval} s", "", rows)
    rows = []
    for seconds in (15, 30, 60):
        need = for_many(figures, disk, 10_000, seconds)
        rows.append((
            f"every {seconds} s", f"{need['series'] / 1e6:.1f} M series, "
            f"{rate(need['samples_per_second'])} samples, "
            f"{need['network_bytes_per_second'] / 1e6:.0f} MB/s, {need['cpu']:.1f} cores, "
            f"{need['memory_bytes'] / 2**30:.0f} GiB, "
            f"{need['disk_bytes_per_day'] / 1e9:.0f} GB a day", "", "", "", need))
    bench.table("fleet", "Derived: 10,000 such nodes", "", rows)
