"""The single parts: a record in the target, a record's way to the disk, and metrics."""
from .common import duration, rate


def run_record(bench):
    items = bench.benchmark("producer_bench", ".")
    push = items["BM_RingPush"]["cpu_time"]
    whole = items["BM_CaptureAndHarvest"]["cpu_time"]
    alone = items["BM_MutexVector/real_time/threads:1"]["real_time"]
    contended = items["BM_MutexVector/real_time/threads:2"]["real_time"]
    # Time per iteration of one thread: with two, Google Benchmark divides by both.
    contended *= 2
    bench.table("record", "One record, producer's side", "mutex and vector", [
        ("into the ring", duration(push), duration(alone), f"1 : {alone / push:.2f}",
         "≤ 25 ns", {"ring_ns": push, "mutex_ns": alone}),
        ("the same, two threads", f"{duration(push)} (rings are per thread)",
         duration(contended), f"1 : {contended / push:.2f}", "",
         {"ring_ns": push, "mutex_ns": contended}),
        ("capture to record, times included", duration(whole), "", "", "",
         {"whole_ns": whole}),
    ])


def run_stream(bench):
    items = bench.benchmark("stream_bench", "Write|Encode|MessagePerRecord|Read/")
    single = items["BM_MessagePerRecord"]

    def row(what, name, goal):
        item = items[name]
        speed, size = item["items_per_second"], item["bytes_per_record"]
        return (what, f"{rate(speed)}, {size:.2f} bytes",
                f"{rate(single['items_per_second'])}, {single['bytes_per_record']:.1f} bytes",
                f"{speed / single['items_per_second']:.2f} ×, "
                f"1 : {single['bytes_per_record'] / size:.1f} bytes",
                goal, {"records_per_second": speed, "bytes_per_record": size,
                       "single_records_per_second": single["items_per_second"],
                       "single_bytes_per_record": single["bytes_per_record"]})

    bench.table("stream", "Records to frames and back, one core", "one message a record", [
        row("encode alone, in memory", "BM_EncodeBatches", ""),
        row("to a file", "BM_WriteRegular/zstd:0", "≥ 5 M/s"),
        row("to a file, zstd 1 (default)", "BM_WriteRegular/zstd:1",
            "≥ 1.00 ×, ≤ 8 bytes"),
        row("to a file, zstd 1, irregular records", "BM_WriteIrregular/zstd:1",
            "≥ 1.00 ×, ≤ 8 bytes"),
        row("back to records, zstd 1", "BM_Read/zstd:1", ""),
    ])


def run_metrics(bench):
    items = bench.benchmark("metrics_bench", "Dispatch|/270")
    each = 1e9 / items["BM_Dispatch"]["items_per_second"]
    snapshot, scrape = items["BM_Snapshot/270"], items["BM_Scrape/270"]
    series, size = scrape["series"], scrape["bytes"]
    bench.table("metrics", f"Metrics, {series:.0f} series of processes", "", [
        ("each dispatch, on the thread that drains", duration(each), "", "", "",
         {"dispatch_ns": each}),
        ("a scrape, on that thread", duration(1e6 * snapshot["cpu_time"]), "", "", "",
         {"snapshot_ns": 1e6 * snapshot["cpu_time"]}),
        ("a scrape, on a thread of its own",
         f"{duration(1e6 * scrape['cpu_time'])}, {size / 1e3:.0f} kB", "", "", "",
         {"scrape_ns": 1e6 * scrape["cpu_time"], "bytes": size, "series": series}),
    ])
