// What a writer remembers of one process's stream.
#ifndef ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_
#define ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/stream/api_batch.h"
#include "userspace/stream/copy_batch.h"
#include "userspace/stream/counter_batch.h"
#include "userspace/stream/dispatch_batch.h"

namespace rocattach {

// What became of one kind of records: written, or lost because they could not be.
struct RecordCounts {
  uint64_t delivered = 0;
  uint64_t dropped = 0;
};

class ProcessStream {
 public:
  ProcessStream(uint32_t stream_id, v1::Process process);

  // Adds entries: to the complete dictionary and to what the next dictionary frame
  // holds.
  void AddEntries(const v1::Dictionary& entries);
  void AddWindow(const v1::WindowEvent& event);
  void AddClock(const v1::ClockRelation& clock);

  // Payloads of the frames that tell all of it. Protobuf messages concatenate, so the
  // dictionary is kept serialised, in pieces that each fit a frame.
  std::vector<std::string> KeyFramePayloads(const std::string& recording_id,
                                            const v1::ClockSnapshot& clock) const;

  bool has_new_entries() const { return !new_entries_.empty(); }
  // The pieces of the dictionary frames that are due.
  std::vector<std::string> TakeNewEntries();

  // Encoders exist only while they are used: most of many processes are idle.
  DispatchBatchEncoder* dispatches(size_t batch_bytes);
  CopyBatchEncoder* copies(size_t batch_bytes);
  CounterBatchEncoder* counters(size_t batch_bytes);
  CounterBatchEncoder* samples(size_t batch_bytes);
  ApiBatchEncoder* api_calls(size_t batch_bytes);
  bool has_dispatches() const { return dispatches_ && dispatches_->count() > 0; }
  bool has_copies() const { return copies_ && copies_->count() > 0; }
  bool has_counters() const { return counters_ && counters_->count() > 0; }
  bool has_samples() const { return samples_ && samples_->count() > 0; }
  bool has_api_calls() const { return api_calls_ && api_calls_->count() > 0; }
  bool has_records() const {
    return has_dispatches() || has_copies() || has_counters() || has_samples() ||
           has_api_calls();
  }
  void ReleaseEncoders();

  const uint32_t id;
  uint32_t sequence = 0;
  // Everything known must be written before anything else: at the beginning, after a
  // frame was dropped, and now and then.
  bool key_frame_due = true;
  uint64_t bytes_since_key = 0;
  uint64_t key_frame_size = 0;
  uint64_t key_frame_ns = 0;
  // When a Flush() first saw the pending records; 0: not yet.
  uint64_t batch_seen_ns = 0;
  // Flushes in a row without records.
  uint32_t idle_flushes = 0;

  RecordCounts dispatches_count, copies_count;
  // Operations, each with all of its values.
  RecordCounts counted_count, samples_count;
  RecordCounts api_calls_count;
  std::optional<v1::LossAccount> account;
  std::optional<v1::ProcessEnd> end;

 private:
  v1::Process process_;
  std::vector<v1::WindowEvent> windows_;
  std::map<uint32_t, v1::ClockRelation> clocks_;  // the last one of each agent
  std::vector<std::string> all_entries_;
  std::vector<std::string> new_entries_;
  std::unique_ptr<DispatchBatchEncoder> dispatches_;
  std::unique_ptr<CopyBatchEncoder> copies_;
  std::unique_ptr<CounterBatchEncoder> counters_, samples_;
  std::unique_ptr<ApiBatchEncoder> api_calls_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_
