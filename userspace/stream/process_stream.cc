#include "userspace/stream/process_stream.h"

#include <utility>

namespace rocattach {
namespace {

// A dictionary frame ends at this size. An entry adds at most 64 KiB of text to it, so
// the frame stays far below kMaxPayloadBytes.
constexpr size_t kPieceBytes = 256 << 10;
// Maximum number of window events that a key frame repeats.
constexpr size_t kKeptWindows = 16;

void AppendPiece(const std::string& piece, std::vector<std::string>* pieces) {
  if (pieces->empty() || pieces->back().size() >= kPieceBytes) pieces->emplace_back();
  pieces->back() += piece;
}

}  // namespace

ProcessStream::ProcessStream(uint32_t stream_id, v1::Process process)
    : id(stream_id), process_(std::move(process)) {}

void ProcessStream::AddEntries(const v1::Dictionary& entries) {
  std::string piece = entries.SerializeAsString();
  if (entries.session_plans_size() > 0) {
    if (plans_.size() == kKeptPlans) plans_.pop_front();
    plans_.push_back(piece);
  } else {
    AppendPiece(piece, &all_entries_);
  }
  // A key frame that is due will contain them anyway.
  if (!key_frame_due) AppendPiece(piece, &new_entries_);
}

void ProcessStream::SetWorkload(v1::Workload workload) {
  *process_.mutable_workload() = std::move(workload);
  // Key frames repeat the process anyway.
  if (key_frame_due) return;
  v1::Dictionary entries;
  *entries.mutable_process() = process_;
  AppendPiece(entries.SerializeAsString(), &new_entries_);
}

void ProcessStream::AddWindow(const v1::WindowEvent& event) {
  if (windows_.size() == kKeptWindows) windows_.erase(windows_.begin());
  windows_.push_back(event);
}

void ProcessStream::AddClock(const v1::ClockRelation& clock) {
  clocks_[clock.agent_id()] = clock;
}

std::vector<std::string> ProcessStream::KeyFramePayloads(
    const std::string& recording_id, const v1::ClockSnapshot& clock) const {
  v1::Dictionary first;
  *first.mutable_process() = process_;
  *first.mutable_clock() = clock;
  for (const v1::WindowEvent& event : windows_) *first.add_windows() = event;
  for (const auto& [agent_id, relation] : clocks_) *first.add_clocks() = relation;
  if (sampling_) *first.mutable_sampling() = *sampling_;
  if (account) *first.mutable_account() = *account;
  if (end) *first.mutable_end() = *end;
  std::vector<std::string> payloads = {first.SerializeAsString()};
  const auto add = [&payloads](const std::string& piece) {
    if (payloads.back().size() + piece.size() <= kPieceBytes) {
      payloads.back() += piece;
    } else {
      payloads.push_back(piece);
    }
  };
  for (const std::string& piece : all_entries_) add(piece);
  for (const std::string& plan : plans_) add(plan);
  for (size_t part = 0; part < payloads.size(); ++part) {
    v1::Dictionary numbers;
    numbers.set_recording_id(recording_id);
    numbers.set_part(static_cast<uint32_t>(part));
    numbers.set_parts(static_cast<uint32_t>(payloads.size()));
    payloads[part] = numbers.SerializeAsString() + payloads[part];
  }
  return payloads;
}

std::vector<std::string> ProcessStream::TakeNewEntries() {
  return std::exchange(new_entries_, {});
}

PerRecordKind<DeliveryCount> ProcessStream::AllCounts() const {
  PerRecordKind<DeliveryCount> all = earlier;
  ForEachRecordKind([&](auto kind) {
    all[kind.kKind].delivered += counts[kind.kKind].delivered;
    all[kind.kKind].dropped += counts[kind.kKind].dropped;
  });
  return all;
}

bool ProcessStream::HasCounts() const {
  bool any = false;
  const PerRecordKind<DeliveryCount> all = AllCounts();
  ForEachRecordKind([&](auto kind) {
    any |= all[kind.kKind].delivered != 0 || all[kind.kKind].dropped != 0;
  });
  return any;
}

void ProcessStream::BeginPart() {
  sequence = 0;
  key_frame_due = true;
  bytes_since_key = 0;
  account.reset();
  new_entries_.clear();
  earlier = AllCounts();
  counts = {};
}

void ProcessStream::ReleaseEncoders() {
  ForEachRecordKind([&](auto kind) {
    using Kind = decltype(kind);
    if (!HasRecords<Kind>()) encoders_.of<Kind>().reset();
  });
}

}  // namespace rocattach
