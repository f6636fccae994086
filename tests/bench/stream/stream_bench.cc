// The cost of a record on its way to disk and back, compared with one protobuf message
// per record. The work is that of a busy process: five kernels on two queues, launches
// about 4 us apart and kernels of about 5 us, both with random jitter.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "row.pb.h"
#include "userspace/report/report.h"
#include "userspace/stream/crc32c.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

constexpr size_t kRecords = 1 << 18;

std::vector<rocattach_dispatch> Dispatches() {
  std::mt19937 random(1);
  std::uniform_int_distribution<uint64_t> launch_jitter(0, 800);
  std::uniform_int_distribution<uint64_t> gap_jitter(0, 300);
  std::uniform_int_distribution<uint64_t> run_jitter(0, 800);
  std::vector<rocattach_dispatch> records(kRecords);
  uint64_t now = 5'000'000'000'000, packet[2] = {}, queue_end[2] = {};
  for (size_t i = 0; i < kRecords; ++i) {
    rocattach_dispatch& record = records[i];
    record.kind = ROCATTACH_RECORD_DISPATCH;
    uint32_t queue = static_cast<uint32_t>(i / 7 % 2);
    record.kernel_id = static_cast<uint32_t>(1 + i % 5);
    record.correlation_id = i + 1;
    record.enqueue_ns = now += 4000 + launch_jitter(random);
    record.start_ns =
        std::max(record.enqueue_ns + 900, queue_end[queue]) + gap_jitter(random);
    record.end_ns = queue_end[queue] = record.start_ns + 5000 + run_jitter(random);
    record.queue_id = queue + 1;
    record.tid = 4711;
    record.grid_x = 1 << 20;
    record.grid_y = record.grid_z = 1;
    record.workgroup_x = 256;
    record.workgroup_y = record.workgroup_z = 1;
    record.agent_id = 2;
    record.packet_index = packet[queue]++;
  }
  return records;
}

// The same with all records different: another grid each time, 8 threads, 64 kernels.
std::vector<rocattach_dispatch> IrregularDispatches() {
  std::vector<rocattach_dispatch> records = Dispatches();
  std::mt19937 random(2);
  for (rocattach_dispatch& record : records) {
    record.kernel_id = 1 + random() % 64;
    record.tid = 4711 + random() % 8;
    record.grid_x = random() % (1 << 20);
    record.end_ns = record.start_ns + random() % 1'000'000;
  }
  return records;
}

void SetRates(benchmark::State& state, uint64_t bytes_per_round) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kRecords));
  state.counters["bytes_per_record"] =
      static_cast<double>(bytes_per_round) / static_cast<double>(kRecords);
}

// Records from memory, as drained from a ring, to frames in a file.
void WriteFile(benchmark::State& state,
               const std::vector<rocattach_dispatch>& records) {
  char path[] = "/tmp/rocattach-bench-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) {
    state.SkipWithError("mkstemp failed");
    return;
  }
  close(fd);
  uint64_t bytes = 0;
  for (auto _ : state) {
    WriterOptions options;
    options.compression_level = static_cast<int>(state.range(0));
    auto sink = OpenFileSink(path, ExistingFile::kTruncate);
    auto writer = StreamWriter::Create(*std::move(sink), options);
    StreamId id = (*writer)->OpenProcess({});
    // In pieces, as a drain delivers them.
    for (size_t at = 0; at < records.size(); at += 1024) {
      absl::Status status = (*writer)->Append<DispatchKind>(
          id, absl::MakeConstSpan(records).subspan(at, 1024));
      if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
    }
    (void)(*writer)->Close();
    bytes = (*writer)->stats().bytes;
  }
  unlink(path);
  SetRates(state, bytes);
}

void BM_WriteRegular(benchmark::State& state) {
  WriteFile(state, Dispatches());
}
// Measured in processor time including the kernel's, as for the messages below: the
// speed of one core does not depend on other load.
BENCHMARK(BM_WriteRegular)->Arg(0)->Arg(1)->Arg(3)->ArgName("zstd");

void BM_WriteIrregular(benchmark::State& state) {
  WriteFile(state, IrregularDispatches());
}
BENCHMARK(BM_WriteIrregular)->Arg(0)->Arg(1)->Arg(3)->ArgName("zstd");

// Encoding alone.
void BM_EncodeBatches(benchmark::State& state) {
  std::vector<rocattach_dispatch> records = Dispatches();
  DispatchBatchEncoder encoder(64 << 10);
  std::string payload;
  uint64_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    for (size_t at = 0; at < records.size();) {
      at += encoder.Append(absl::MakeConstSpan(records).subspan(at));
      encoder.EncodeTo(&payload);
      bytes += payload.size();
      benchmark::DoNotOptimize(payload.data());
    }
  }
  SetRates(state, bytes);
}
BENCHMARK(BM_EncodeBatches);

// For comparison: a generated message per record, length-delimited, as many tools write
// their traces; in memory only.
void BM_MessagePerRecord(benchmark::State& state) {
  std::vector<rocattach_dispatch> records = Dispatches();
  std::string out;
  bench::Row row;
  for (auto _ : state) {
    out.clear();
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    for (const rocattach_dispatch& record : records) {
      row.set_kernel_id(record.kernel_id);
      row.set_agent_id(record.agent_id);
      row.set_queue_id(record.queue_id);
      row.set_tid(record.tid);
      row.set_correlation_id(record.correlation_id);
      row.set_enqueue_ns(record.enqueue_ns);
      row.set_start_ns(record.start_ns);
      row.set_end_ns(record.end_ns);
      row.set_grid_x(record.grid_x);
      row.set_grid_y(record.grid_y);
      row.set_grid_z(record.grid_z);
      row.set_workgroup_x(record.workgroup_x);
      row.set_workgroup_y(record.workgroup_y);
      row.set_workgroup_z(record.workgroup_z);
      row.set_lds_bytes(record.lds_bytes);
      row.set_scratch_bytes(record.scratch_bytes);
      row.set_packet_index(record.packet_index);
      coded.WriteVarint32(static_cast<uint32_t>(row.ByteSizeLong()));
      row.SerializeWithCachedSizes(&coded);
    }
    coded.Trim();
    benchmark::DoNotOptimize(out.data());
  }
  SetRates(state, out.size());
}
BENCHMARK(BM_MessagePerRecord);

std::string Recording(int level) {
  std::string bytes;
  WriterOptions options;
  options.compression_level = level;
  auto writer = StreamWriter::Create(std::make_unique<MemorySink>(&bytes), options);
  StreamId id = (*writer)->OpenProcess({});
  (void)(*writer)->Append<DispatchKind>(id, Dispatches());
  (void)(*writer)->Close();
  return bytes;
}

// From frames back to records.
void BM_Read(benchmark::State& state) {
  std::string bytes = Recording(static_cast<int>(state.range(0)));
  StreamVisitor visitor;
  for (auto _ : state) {
    StreamDecoder decoder(&visitor);
    decoder.Feed(bytes);
    decoder.FinishInput();
    if (decoder.stats().records[RecordKind::kDispatch] != kRecords)
      state.SkipWithError("records missing");
  }
  SetRates(state, bytes.size());
}
BENCHMARK(BM_Read)->Arg(0)->Arg(1)->ArgName("zstd");

// From frames to the numbers of a report.
void BM_ReadToReport(benchmark::State& state) {
  std::string bytes = Recording(1);
  for (auto _ : state) {
    ReportBuilder builder;
    StreamDecoder decoder(&builder);
    decoder.Feed(bytes);
    decoder.FinishInput();
    Report report = builder.Finish(decoder.stats());
    if (report.recordings[0].processes[0]->dispatches != kRecords) {
      state.SkipWithError("records missing");
    }
  }
  SetRates(state, bytes.size());
}
BENCHMARK(BM_ReadToReport);

void BM_Crc32c(benchmark::State& state) {
  std::string bytes(64 << 10, 'x');
  for (auto _ : state) benchmark::DoNotOptimize(Crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}
BENCHMARK(BM_Crc32c);

}  // namespace
}  // namespace rocattach

BENCHMARK_MAIN();
