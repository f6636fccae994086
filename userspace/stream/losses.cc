#include "userspace/stream/losses.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

constexpr absl::string_view kReadFaster =
    "give the service more processor time, or its processes larger rings "
    "(--ring-slots)";
constexpr absl::string_view kBypassed =
    "the process rings doorbells without the runtime's functions ('--capture "
    "intercept' "
    "sees such packets), or runs work that its packets do not describe: buffers of "
    "packets, PM4 commands, unknown formats";
constexpr absl::string_view kOutput = "see the errors of the output: is the disk full?";

struct Reason {
  uint64_t (v1::LossAccount::*count)() const;
  absl::string_view name, label, clause, help;
};

// Reasons for lost operations; the sum of their counts is DroppedRecords().
constexpr Reason kDropped[] = {
    {&v1::LossAccount::dropped_ring_full, "ring_full", "ring full",
     "dropped, the ring was full", kReadFaster},
    {&v1::LossAccount::dropped_collector, "collector", "in the collector",
     "without room in the collector, or not delivered by rocprofiler-sdk", ""},
    {&v1::LossAccount::dropped_invalid, "invalid", "not plausible",
     "refused as damaged", ""},
    {&v1::LossAccount::dropped_inflight, "target_died", "in flight at the end",
     "in flight and not recoverable", ""},
    {&v1::LossAccount::dropped_writer, "writer", "not written",
     "dropped, the stream could not be written", kOutput},
};

constexpr Reason kOthers[] = {
    {&v1::LossAccount::packets_unseen, "unseen", "unseen",
     "packets not seen, or not understood, by the collector", kBypassed},
    {&v1::LossAccount::dictionary_dropped, "names", "names", "names did not fit", ""},
    {&v1::LossAccount::counted_dropped, "counted", "counted dispatches",
     "dispatches without their counter values", kReadFaster},
    {&v1::LossAccount::samples_dropped, "samples", "samples", "samples", kReadFaster},
    {&v1::LossAccount::api_calls_dropped, "api_calls", "API calls", "API calls",
     kReadFaster},
    {&v1::LossAccount::memory_dropped, "memory", "allocations", "allocations of memory",
     kReadFaster},
};

}  // namespace

uint64_t DroppedRecords(const v1::LossAccount& account) {
  uint64_t sum = 0;
  for (const Reason& reason : kDropped) sum += (account.*reason.count)();
  return sum;
}

uint64_t LostRecords(const v1::LossAccount& account) {
  return DroppedRecords(account) + account.packets_unseen();
}

std::vector<Loss> LossesOf(const v1::LossAccount& account) {
  std::vector<Loss> losses;
  const auto add = [&](const Reason& reason) {
    const uint64_t count = (account.*reason.count)();
    if (count == 0) return;
    losses.push_back({count, reason.name, reason.label, reason.clause, reason.help});
  };
  for (const Reason& reason : kDropped) add(reason);
  for (const Reason& reason : kOthers) add(reason);
  return losses;
}

std::string LossText(const v1::LossAccount& account) {
  return absl::StrJoin(LossesOf(account), ", ", [](std::string* out, const Loss& loss) {
    absl::StrAppend(out, HumanCount(loss.count), " ", loss.label);
  });
}

}  // namespace rocattach
