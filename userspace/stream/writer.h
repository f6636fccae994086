// Writes a recording: one stream of frames a process, and stream 0 for the recorder.
//
//   auto sink = OpenFileSink(path, ExistingFile::kRefuse);
//   auto writer = StreamWriter::Create(*std::move(sink), {});
//   StreamId id = (*writer)->OpenProcess(process);
//   (*writer)->AddWindowEvent(id, event);
//   (*writer)->AddKernel(id, kernel);          // before or after its records
//   (*writer)->AppendDispatches(id, records);  // as they are drained
//   (*writer)->AddSessionPlan(id, plan);       // before the values that it explains
//   (*writer)->AppendCounters(id, values);
//   (*writer)->Flush(BootNs());                // some times a second
//   (*writer)->SetAccount(id, account); (*writer)->EndProcess(id, end);
//   (*writer)->AddSummary(summary); (*writer)->Close();
//
// Errors. Every call that may write returns the error of the sink, with its name. The
// writer stays usable: what could not be written is counted, and tried again only where
// it is small and needed (headers, dictionaries, verdicts and ends, by the next key
// frame); batches of records are dropped and counted. So a caller logs the first error
// and goes on; once space returns, recording has resumed by itself. Whatever is in the
// file stays readable at any time.
//
// Text (names, arguments, details) is cut to 64 KiB a field and made valid UTF-8.
//
// Not thread-safe: one thread at a time.
#ifndef ROCATTACH_USERSPACE_STREAM_WRITER_H_
#define ROCATTACH_USERSPACE_STREAM_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/clock.h"
#include "userspace/stream/session_records.h"
#include "userspace/stream/sink.h"

namespace rocattach {

class Compressor;
class ProcessStream;
struct FrameHeader;
struct RecordCounts;

// A process's stream within one recording, from 1. 0 is the recorder's own.
using StreamId = uint32_t;

struct WriterOptions {
  // zstd level of every frame; 0 is off; unset: 1 for files, off for pipes.
  std::optional<int> compression_level;
  // A batch is cut at this many bytes (before compression) …
  size_t batch_bytes = 64 << 10;
  // … or when a Flush() finds it this old.
  uint64_t batch_ns = 250'000'000;
  // A stream repeats all that is known of it after so many bytes, or so much time, and
  // before its next frame: a reader can join a running stream there.
  uint64_t key_frame_bytes = 4 << 20;
  uint64_t key_frame_ns = 30'000'000'000;
  // For the stream header.
  std::vector<std::string> recorder_arguments;
  // Where times come from; tests replace it.
  std::function<ClockSnapshot()> clock = TakeClockSnapshot;
};

// What a writer has done so far.
struct WriterStats {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t streams = 0;
  uint64_t dispatches = 0;       // written
  uint64_t copies = 0;           // written
  uint64_t counter_values = 0;   // written, of dispatches
  uint64_t sample_values = 0;    // written
  uint64_t api_calls = 0;        // written
  uint64_t frames_dropped = 0;   // could not be written (key frames are tried again)
  uint64_t records_dropped = 0;  // the records in them
};

class StreamWriter {
 public:
  // Writes the stream header. Fails if even that cannot be written.
  static absl::StatusOr<std::unique_ptr<StreamWriter>> Create(
      std::unique_ptr<Sink> sink, WriterOptions options);
  // Without Close(), what is pending is written, but no end frame: readers will say
  // that the recording was cut off.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  // Begins a process's stream. Nothing is written before its first event or record, or
  // the next Flush().
  StreamId OpenProcess(v1::Process process);

  // Dictionary entries; they reach the stream before the next batch does, and at the
  // latest with the next Flush(). Add each id once: it is kept for the key frames.
  // The calls below with a stream that is not open return NOT_FOUND.
  absl::Status AddAgent(StreamId stream, v1::Agent agent);
  absl::Status AddQueue(StreamId stream, v1::Queue queue);
  absl::Status AddKernel(StreamId stream, v1::Kernel kernel);
  absl::Status AddCodeObject(StreamId stream, v1::CodeObject code_object);
  absl::Status AddSessionPlan(StreamId stream, v1::SessionPlan plan);
  absl::Status AddApiFunction(StreamId stream, v1::ApiFunction function);

  // Records, validated by the caller. Full batches are written at once.
  absl::Status AppendDispatches(StreamId stream,
                                absl::Span<const rocattach_dispatch> records);
  absl::Status AppendCopies(StreamId stream, absl::Span<const rocattach_copy> records);
  // Values of dispatches. Those of one dispatch are adjacent and come in one call; so
  // do those of a sample.
  absl::Status AppendCounters(StreamId stream, absl::Span<const CounterRecord> records);
  absl::Status AppendSamples(StreamId stream, absl::Span<const CounterRecord> records);
  absl::Status AppendApiCalls(StreamId stream, absl::Span<const ApiCallRecord> records);

  // Events cut the stream's batches first, so that order is kept, and are written at
  // once. The last window event is the process's verdict.
  absl::Status AddWindowEvent(StreamId stream, v1::WindowEvent event);
  absl::Status AddClock(StreamId stream, const rocattach_clock& clock);
  absl::Status AddSessionEvent(StreamId stream, v1::SessionEvent event);

  // The account so far. The writer fills in *_delivered and dropped_writer itself, and
  // adds what it could not write to the other *_dropped.
  // Written at once, after the stream's pending records, if anything changed.
  absl::Status SetAccount(StreamId stream, v1::LossAccount account);

  // The process is gone, and so is its stream: `stream` is not valid any more. Set the
  // final account before this.
  absl::Status EndProcess(StreamId stream, v1::ProcessEnd end);

  // The recording's summary.
  absl::Status AddSummary(const v1::WatcherSummary& summary);

  // Writes dictionary entries and batches that are due; `now_ns` is CLOCK_BOOTTIME.
  absl::Status Flush(uint64_t now_ns);
  // Writes all that is pending.
  absl::Status FlushAll();

  // Writes all that is pending, and the end frame. Streams that are still open stay
  // without an end. No other call may follow, but stats().
  absl::Status Close();

  const WriterStats& stats() const { return stats_; }
  const Sink& sink() const { return *sink_; }
  // The last account of an open stream, as it was written; null without one.
  const v1::LossAccount* account(StreamId stream) const;

 private:
  StreamWriter(std::unique_ptr<Sink> sink, WriterOptions options);

  ProcessStream* Find(StreamId stream) const;
  absl::Status NotFound(StreamId stream) const;
  absl::Status WriteStreamHeader();
  absl::Status WriteKeyFrame(ProcessStream* stream);
  // Whatever must stand in front of the stream's next frame: the stream header, a key
  // frame that is due, new dictionary entries.
  absl::Status Prepare(ProcessStream* stream);
  absl::Status WriteDispatches(ProcessStream* stream);
  absl::Status WriteCopies(ProcessStream* stream);
  absl::Status WriteCounters(ProcessStream* stream);
  absl::Status WriteSamples(ProcessStream* stream);
  absl::Status WriteApiCalls(ProcessStream* stream);
  absl::Status CutBatches(ProcessStream* stream);
  // Writes what `batch` holds, `operations` in all, and counts it.
  template <typename Encoder>
  absl::Status WriteBatch(ProcessStream* stream, v1::FrameType type, Encoder* batch,
                          size_t operations, RecordCounts* counts, uint64_t* written);
  // Each writes one frame of a process, if Prepare() went well, and else notes that
  // there is something missing.
  absl::Status WriteEvent(ProcessStream* stream, absl::Status prepared,
                          const v1::Event& event, uint8_t flags);
  absl::Status WriteProcessFrame(ProcessStream* stream, v1::FrameType type,
                                 uint8_t flags, size_t records,
                                 absl::string_view payload);
  void NoteUnwritten(ProcessStream* stream);
  // Compresses and writes one frame, and counts it if that went well.
  absl::Status WriteFrame(FrameHeader header, absl::string_view payload);
  absl::Status WriteRecorderFrame(v1::FrameType type, uint8_t flags,
                                  const google::protobuf::Message& message);

  std::unique_ptr<Sink> sink_;
  WriterOptions options_;
  std::unique_ptr<Compressor> compressor_;  // null: off
  WriterStats stats_;
  v1::StreamHeader header_;
  bool header_due_ = true;
  uint64_t header_frame_bytes_ = 0;  // stats_.bytes when the header was last written
  uint64_t header_ns_ = 0;
  uint32_t recorder_sequence_ = 0;
  StreamId next_stream_ = 1;
  uint64_t now_ns_ = 0;
  bool closed_ = false;
  absl::flat_hash_map<StreamId, std::unique_ptr<ProcessStream>> streams_;
  // Ended streams whose end has not been written yet.
  std::vector<std::unique_ptr<ProcessStream>> ending_;
  // Kept between frames so that writing one allocates nothing.
  std::string payload_, compressed_, frame_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_WRITER_H_
