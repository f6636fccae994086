#include "userspace/record/driver_evidence.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

// The runtime itself copies a little, for example when code is loaded.
constexpr uint64_t kLeastCopyUs = 10'000;

}  // namespace

std::string DriverEvidence::Compare(const DriverReading& driver,
                                    const CollectorReading& collector) {
  const DriverReading last = std::exchange(driver_, driver);
  const CollectorReading before = std::exchange(collector_, collector);
  if (std::exchange(first_, false)) return "";
  const bool idle = before.inflight == 0 && collector.inflight == 0 &&
                    before.unseen == collector.unseen &&
                    before.dispatches == collector.dispatches &&
                    before.copies == collector.copies;
  if (!idle) return "";
  if (before.dispatches_on && collector.dispatches_on && collector.not_followed == 0 &&
      last.computes && driver.computes) {
    return "the kernel driver says that it computes, and the collector sees no "
           "dispatch: it submits work in a way that is not seen, or a kernel from "
           "before the attach still runs";
  }
  const uint64_t copied =
      driver.sdma_us > last.sdma_us ? driver.sdma_us - last.sdma_us : 0;
  if (before.copies_on && collector.copies_on && copied >= kLeastCopyUs) {
    return absl::StrCat(
        "the kernel driver says that copy engines worked ",
        HumanDuration(copied * 1000),
        " for it, and the collector saw no copy: it submits copies in a "
        "way that is not seen");
  }
  return "";
}

}  // namespace rocattach
