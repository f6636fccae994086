#include "userspace/stream/process_stream.h"

#include <utility>

namespace rocattach {
namespace {

// A dictionary frame ends at this size. An entry adds at most 64 KiB of text to it, so
// that a frame stays far below kMaxPayloadBytes.
constexpr size_t kPieceBytes = 256 << 10;
// Window events that a key frame repeats.
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
  AppendPiece(piece, &all_entries_);
  // A key frame that is due will hold them anyway.
  if (!key_frame_due) AppendPiece(piece, &new_entries_);
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
  if (account) *first.mutable_account() = *account;
  if (end) *first.mutable_end() = *end;
  std::vector<std::string> payloads = {first.SerializeAsString()};
  for (const std::string& piece : all_entries_) {
    if (payloads.back().size() + piece.size() <= kPieceBytes) {
      payloads.back() += piece;
    } else {
      payloads.push_back(piece);
    }
  }
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

DispatchBatchEncoder* ProcessStream::dispatches(size_t batch_bytes) {
  if (!dispatches_) dispatches_ = std::make_unique<DispatchBatchEncoder>(batch_bytes);
  return dispatches_.get();
}

CopyBatchEncoder* ProcessStream::copies(size_t batch_bytes) {
  if (!copies_) copies_ = std::make_unique<CopyBatchEncoder>(batch_bytes);
  return copies_.get();
}

CounterBatchEncoder* ProcessStream::counters(size_t batch_bytes) {
  if (!counters_) counters_ = std::make_unique<CounterBatchEncoder>(batch_bytes);
  return counters_.get();
}

CounterBatchEncoder* ProcessStream::samples(size_t batch_bytes) {
  if (!samples_) samples_ = std::make_unique<CounterBatchEncoder>(batch_bytes);
  return samples_.get();
}

ApiBatchEncoder* ProcessStream::api_calls(size_t batch_bytes) {
  if (!api_calls_) api_calls_ = std::make_unique<ApiBatchEncoder>(batch_bytes);
  return api_calls_.get();
}

void ProcessStream::ReleaseEncoders() {
  if (!has_dispatches()) dispatches_.reset();
  if (!has_copies()) copies_.reset();
  if (!has_counters()) counters_.reset();
  if (!has_samples()) samples_.reset();
  if (!has_api_calls()) api_calls_.reset();
}

}  // namespace rocattach
