#include "userspace/record/arrival.h"

#include <errno.h>
#include <string.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "injector/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/record/end_verdict.h"

namespace rocattach {
namespace {

// A collector that could not be set up reports an errno value.
AttachFailure StartFailure(int error) {
  const bool is_limit = error == EFBIG || error == EMFILE || error == ENFILE ||
                        error == ENOMEM || error == EAGAIN;
  const char* name = strerrorname_np(error);
  const char* text = strerrordesc_np(error);
  return {is_limit ? AttachReason::kResourceLimit : AttachReason::kCollectorRefused,
          error,
          absl::StrCat("the collector could not be set up in the process (",
                       name != nullptr ? name : absl::StrCat("errno ", error), ", ",
                       text != nullptr ? text : "", "), and has changed nothing")};
}

// A forked child has mapped the memory of its parent.
absl::Status CheckIsOwnMemory(pid_t pid, const CollectorMemory& memory) {
  auto status = ReadThreadStatus(pid, pid);
  if (status.ok() && status->inner_tid == memory.owner()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the collector in process ", pid, " belongs to process ", memory.owner(),
      " (as that calls itself), from which it was forked"));
}

}  // namespace

Arrival MapArrival(const rocattach_event& event,
                   const rocattach_collector_config& config, bool hold) {
  Arrival arrival;
  arrival.event = event;
  if (event.ready.memory == 0) {
    arrival.failure = StartFailure(static_cast<int>(event.ready.bytes_or_errno));
    return arrival;
  }
  // By thread ID: the process's first thread may have exited.
  auto memory = CollectorMemory::Map(static_cast<pid_t>(event.tid), event.ready.memory,
                                     event.ready.bytes_or_errno, config);
  if (!memory.ok() && event.tid != event.pid) {
    memory = CollectorMemory::Map(static_cast<pid_t>(event.pid), event.ready.memory,
                                  event.ready.bytes_or_errno, config);
  }
  if (!memory.ok()) {
    arrival.failure = UnusableMemory(memory.status());
    return arrival;
  }
  arrival.memory = *std::move(memory);
  if (event.mode == ROCATTACH_READY_TAKEN_OVER) {
    absl::Status status =
        CheckIsOwnMemory(static_cast<pid_t>(event.pid), *arrival.memory);
    if (status.ok()) status = arrival.memory->TakeOver(BootNs());
    if (!status.ok()) {
      arrival.memory.reset();
      arrival.failure = AttachFailure{AttachReason::kAlreadyAttached, 0,
                                      std::string(status.message())};
      return arrival;
    }
  }
  arrival.acknowledged = !hold;
  if (!hold) arrival.memory->AcknowledgeMapped();
  return arrival;
}

}  // namespace rocattach
