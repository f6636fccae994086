// Packets of a Perfetto trace (schemas/export/perfetto.proto), from plain values.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PACKETS_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PACKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schemas/export/perfetto.pb.h"
#include "userspace/export/pftrace/wire_writer.h"
#include "userspace/stream/alignment.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// Names that are interned in every trace, with the same numbers. Other numbers begin at
// kFirstFreeIid.
enum PftraceCategory : uint32_t {
  kCategoryHsa = 1,
  kCategoryHip,
  kCategoryMarker,
  kCategoryDispatch,
  kCategoryCopy,
  kCategoryProcess,
  kCategoryRccl,
  kCategoryMemory,
  kCategoryScratch,
};
enum PftraceArg : uint32_t {
  kArgCorrelationId = 1,
  kArgAncestorId,
  kArgSession,
  kArgTid,
  kArgEnqueueNs,
  kArgDispatchId,
  kArgLdsBytes,
  kArgScratchBytes,
  kArgBytes,
  kArgSourceAgent,
  kArgDestinationAgent,
  kArgSourceAddress,
  kArgDestinationAddress,
  kArgEngine,
  kArgAgent,
  kArgAddress,
  kArgDurationNs,
  kArgQueue,
  kArgHipStream,
  // Viewers group the work of a GPU by these.
  kArgDevice,
  kArgStream,
};
enum PftraceStage : uint32_t { kStageKernel = 1, kStageCopy };
inline constexpr uint32_t kFirstFreeIid = 64;

// A number that is shown with an event.
struct PftraceNumber {
  PftraceArg name;
  uint64_t value = 0;
};

// One piece of work of a GPU.
struct PftraceStageEvent {
  uint64_t begin_ns = 0, end_ns = 0;
  uint64_t event_id = 0;
  uint32_t gpu = 0;
  uint32_t context = 0;  // the process
  uint32_t queue = 0;
  PftraceStage stage = kStageKernel;
  uint32_t name = 0;
  uint32_t kernel = 0;  // 0: none
  // In work-items and work-items per work-group; all 0: none.
  std::array<uint32_t, 3> grid = {}, workgroup = {};
  absl::Span<const PftraceNumber> numbers;
};

// The beginning of a slice, or an instant.
struct PftraceTrackEvent {
  perfetto::TrackEvent::Type type = perfetto::TrackEvent::TYPE_SLICE_BEGIN;
  uint64_t time_ns = 0;
  uint64_t track = 0;
  PftraceCategory category = kCategoryHip;
  uint32_t name = 0;  // 0: name_text is used
  absl::string_view name_text;
  absl::Span<const PftraceNumber> numbers;
  absl::Span<const ApiArgument> arguments;
  // Ids of the stage events that this call submitted.
  absl::Span<const uint64_t> submitted;
};

// Appends packets to a string, but not the names that they refer to: the caller
// announces those, again after each Reset().
class PftracePackets {
 public:
  explicit PftracePackets(std::string* out) : out_(out) {}

  // Sets the machine of the packets that follow; 0 is the one whose clock the trace
  // uses. Names are announced separately for each machine.
  void set_machine(uint32_t machine) { machine_ = machine; }
  // Invalidates all names that were announced for the machine, and announces the fixed
  // ones, so that packets of the machine from here on can be read without earlier ones.
  // `first`: the file has nothing about the machine yet.
  void Reset(bool first);
  // Sets the alignment of the times that follow, which are those of another clock.
  void set_alignment(const Alignment& alignment) { alignment_ = alignment; }
  // A time as it is written to the trace.
  uint64_t Shifted(uint64_t time_ns) const { return alignment_.Shifted(time_ns); }

  // Writes a packet of a rare kind; fills in its sequence.
  void Rare(perfetto::TracePacket packet);

  void Stage(const PftraceStageEvent& event);
  void Track(const PftraceTrackEvent& event);
  void EndSlice(uint64_t time_ns, uint64_t track);
  void Counter(uint64_t time_ns, uint64_t track, double value);

  // Number of bytes written so far, without rare packets.
  uint64_t event_bytes() const { return event_bytes_; }

 private:
  void BeginPacket(uint64_t time_ns);
  void EndPacket();
  void Dimensions(uint32_t field, const std::array<uint32_t, 3>& xyz);

  std::string* const out_;
  WireWriter wire_;
  Alignment alignment_;
  uint32_t machine_ = 0;
  uint64_t event_bytes_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PACKETS_H_
