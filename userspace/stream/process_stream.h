// A writer's state for one process's stream.
#ifndef ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_
#define ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/stream/account_part.h"
#include "userspace/stream/record_counts.h"
#include "userspace/stream/record_kinds.h"

namespace rocattach {

class ProcessStream {
 public:
  ProcessStream(uint32_t stream_id, v1::Process process);

  // Number of session plans that key frames repeat. A process may have any number of
  // plans, but records can still refer only to the latest.
  static constexpr size_t kKeptPlans = 128;

  // Adds entries to the complete dictionary and to the next dictionary frame. A plan
  // must be passed alone.
  void AddEntries(const v1::Dictionary& entries);
  // Sets the process's workload (pod, container or job); replaces the former one.
  void SetWorkload(v1::Workload workload);
  void AddWindow(const v1::WindowEvent& event);
  void AddClock(const v1::ClockRelation& clock);
  void SetSampling(v1::SamplingEvent event) { sampling_ = std::move(event); }

  // Payloads of the key frame's parts, which repeat everything known. Protobuf messages
  // concatenate, so the dictionary is kept serialised, in pieces that each fit a frame.
  std::vector<std::string> KeyFramePayloads(const std::string& recording_id,
                                            const v1::ClockSnapshot& clock) const;

  bool has_new_entries() const { return !new_entries_.empty(); }
  // Removes and returns the pieces of the dictionary frames that are due.
  std::vector<std::string> TakeNewEntries();

  // An encoder exists only while it is used: of many processes, most are idle.
  template <typename Kind>
  typename Kind::Encoder* Encoder(size_t batch_bytes) {
    auto& encoder = encoders_.of<Kind>();
    if (!encoder) encoder = std::make_unique<typename Kind::Encoder>(batch_bytes);
    return encoder.get();
  }
  template <typename Kind>
  bool HasRecords() const {
    const auto& encoder = encoders_.of<Kind>();
    return encoder && encoder->count() > 0;
  }
  bool HasAnyRecords() const {
    bool any = false;
    ForEachRecordKind([&](auto kind) { any |= HasRecords<decltype(kind)>(); });
    return any;
  }
  // Frees encoders without records.
  void ReleaseEncoders();

  const uint32_t id;
  uint32_t sequence = 0;
  // Everything known must be written before anything else: at the beginning, after a
  // frame was dropped, and periodically.
  bool key_frame_due = true;
  uint64_t bytes_since_key = 0;
  uint64_t key_frame_size = 0;
  uint64_t key_frame_ns = 0;
  // Time at which a Flush() first saw the pending records; 0: not yet.
  uint64_t batch_seen_ns = 0;
  // Time at which a Flush() first saw no records; 0: the last one saw some.
  uint64_t idle_since_ns = 0;

  // Begins another file: everything known must be written again.
  void BeginPart();

  PerRecordKind<DeliveryCount> counts;     // in this file
  PerRecordKind<DeliveryCount> earlier;    // in earlier files of the recording
  std::optional<v1::LossAccount> account;  // as written, for this file
  v1::LossAccount given;                   // the last one given, from the attach on
  std::optional<v1::LossAccount> whole;    // the same with the writer's counts
  AccountPart account_part;
  // True if a record was written or lost, in any file.
  bool HasCounts() const;
  // The counts over all files.
  PerRecordKind<DeliveryCount> AllCounts() const;
  std::optional<v1::ProcessEnd> end;

 private:
  v1::Process process_;
  std::vector<v1::WindowEvent> windows_;
  std::map<uint32_t, v1::ClockRelation> clocks_;  // the last one of each agent
  std::optional<v1::SamplingEvent> sampling_;
  std::vector<std::string> all_entries_;
  std::deque<std::string> plans_;  // the last kKeptPlans
  std::vector<std::string> new_entries_;
  template <typename Kind>
  using EncoderOf = std::unique_ptr<typename Kind::Encoder>;
  ByRecordKind<EncoderOf> encoders_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_PROCESS_STREAM_H_
