// Writes a recording: one stream of frames per process, and stream 0 for the recorder.
//
//   auto sink = OpenFileSink(path, ExistingFile::kRefuse);
//   auto writer = StreamWriter::Create(*std::move(sink), {});
//   StreamId id = (*writer)->OpenProcess(process);
//   (*writer)->AddWindowEvent(id, event);
//   (*writer)->AddKernel(id, kernel);          // before or after its records
//   (*writer)->Append<DispatchKind>(id, records);  // as they are drained
//   (*writer)->AddSessionPlan(id, plan);       // before the values that it explains
//   (*writer)->Append<CounterKind>(id, values);
//   (*writer)->Flush(BootNs());                // some times a second
//   (*writer)->SetAccount(id, account); (*writer)->EndProcess(id, end);
//   (*writer)->AddSummary(summary); (*writer)->Close();
//
// Errors. Every call that may write returns the error of the sink, with its name. The
// writer stays usable: what could not be written is counted, and tried again only where
// it is small and needed (headers, dictionaries, verdicts and ends, by the next key
// frame); batches of records are dropped and counted. So a caller logs the first error
// and continues; once there is space again, recording resumes by itself. The file's
// contents are readable at any time.
//
// Text (names, arguments, details) is truncated to 64 KiB per field and made valid
// UTF-8.
//
// Not thread-safe: one thread at a time.
#ifndef ROCATTACH_USERSPACE_STREAM_WRITER_H_
#define ROCATTACH_USERSPACE_STREAM_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/stream/frame_writer.h"
#include "userspace/stream/process_stream.h"
#include "userspace/stream/record_kinds.h"
#include "userspace/stream/sink.h"

namespace rocattach {

// A process's stream within one recording, from 1. 0 is the recorder's own.
using StreamId = uint32_t;

class StreamWriter {
 public:
  // Writes the stream header. Fails if even that cannot be written.
  static absl::StatusOr<std::unique_ptr<StreamWriter>> Create(
      std::unique_ptr<Sink> sink, WriterOptions options);
  // Without Close(), pending data is written, but no end frame: readers will report
  // that the recording was truncated.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // Begins a process's stream. Nothing is written before its first event or record, or
  // the next Flush().
  StreamId OpenProcess(v1::Process process);

  // Dictionary entries; they are written before the next batch, and at the latest by
  // the next Flush(). Add each id once: it is kept for the key frames. The calls below
  // return NOT_FOUND if the stream is not open.
  absl::Status AddAgent(StreamId stream, v1::Agent agent);
  // Sets the process's workload (pod, container or job); replaces the former one.
  absl::Status SetWorkload(StreamId stream, v1::Workload workload);
  absl::Status AddQueue(StreamId stream, v1::Queue queue);
  absl::Status AddKernel(StreamId stream, v1::Kernel kernel);
  absl::Status AddCodeObject(StreamId stream, v1::CodeObject code_object);
  absl::Status AddSessionPlan(StreamId stream, v1::SessionPlan plan);
  absl::Status AddApiFunction(StreamId stream, v1::ApiFunction function);
  // A later call with another name for the same thread replaces the former name.
  absl::Status AddThread(StreamId stream, v1::Thread thread);

  // Records of one kind, validated by the caller: Append<DispatchKind>(…). Full batches
  // are written at once. Pass all values of one dispatch or sample in one call.
  template <typename Kind>
  absl::Status Append(StreamId id, absl::Span<const typename Kind::Record> records) {
    ProcessStream* stream = Find(id);
    if (stream == nullptr) return NotFound(id);
    absl::Status status;
    while (!records.empty()) {
      auto* batch = stream->Encoder<Kind>(options_.batch_bytes);
      records.remove_prefix(batch->Append(records));
      if (batch->full()) status.Update(frames_.WriteBatch<Kind>(stream));
    }
    return status;
  }

  // The same for counter values (CounterKind or SampleKind), but faster, without a
  // record for each value. `values` has those of all operations, one after another.
  template <typename Kind>
  absl::Status AppendOperations(StreamId id,
                                absl::Span<const CounterOperation> operations,
                                absl::Span<const rocattach_counter_value> values) {
    ProcessStream* stream = Find(id);
    if (stream == nullptr) return NotFound(id);
    absl::Status status;
    while (!operations.empty()) {
      auto* batch = stream->Encoder<Kind>(options_.batch_bytes);
      operations.remove_prefix(batch->AppendOperations(operations, &values));
      if (batch->full()) status.Update(frames_.WriteBatch<Kind>(stream));
    }
    return status;
  }

  // Events first cut the stream's batches, so that order is kept, and are written at
  // once. The last window event is the process's verdict.
  absl::Status AddWindowEvent(StreamId stream, v1::WindowEvent event);
  absl::Status AddClock(StreamId stream, const rocattach_clock& clock);
  absl::Status AddSessionEvent(StreamId stream, v1::SessionEvent event);
  // Key frames repeat the last of these events.
  absl::Status AddSamplingEvent(StreamId stream, v1::SamplingEvent event);

  // Sets the account so far. The writer fills in *_delivered and dropped_writer itself,
  // and adds what it could not write to the other *_dropped.
  // Written at once, after the stream's pending records, if anything changed.
  absl::Status SetAccount(StreamId stream, v1::LossAccount account);

  // Ends the stream of a process that is gone: `stream` is no longer valid. Set the
  // final account before this.
  absl::Status EndProcess(StreamId stream, v1::ProcessEnd end);

  // Writes the recording's summary.
  absl::Status AddSummary(const v1::WatcherSummary& summary);

  // Writes dictionary entries and batches that are due; `now_ns` is CLOCK_BOOTTIME.
  absl::Status Flush(uint64_t now_ns);
  // Writes all that is pending.
  absl::Status FlushAll();

  // Continues in another file, which is a complete recording of its own, with
  // everything known of the open streams. In the former file these streams end with
  // CONTINUED, and the accounts in each file cover that file only. stats() begin again,
  // and *former gets those of the former file; stream ids stay the same.
  absl::Status Rotate(std::unique_ptr<Sink> next, WriterStats* former);

  // Writes all that is pending, and the end frame. Streams that are still open get no
  // end event. No other call but stats() may follow.
  absl::Status Close();

  const WriterStats& stats() const { return frames_.stats(); }
  const Sink& sink() const { return frames_.sink(); }
  // The last account of an open stream, over all files; null if there is none.
  const v1::LossAccount* account(StreamId stream) const;

 private:
  StreamWriter(std::unique_ptr<Sink> sink, WriterOptions options);

  ProcessStream* Find(StreamId stream) const;
  absl::Status NotFound(StreamId stream) const;
  // Writes a stream's last frames in a file that another one follows.
  absl::Status EndPart(ProcessStream* stream);
  absl::Status WriteEnd();
  // Adds to the stream's dictionary; cuts the strings to `limit` bytes.
  absl::Status AddEntries(StreamId stream, size_t limit, v1::Dictionary entries);

  const WriterOptions options_;
  FrameWriter frames_;
  StreamId next_stream_ = 1;
  bool closed_ = false;
  absl::flat_hash_map<StreamId, std::unique_ptr<ProcessStream>> streams_;
  // Ended streams whose end has not been written yet.
  std::vector<std::unique_ptr<ProcessStream>> ending_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_WRITER_H_
