// The names behind the numbers in a session's records.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SESSION_NAMES_H_
#define ROCATTACH_USERSPACE_LIBRARY_SESSION_NAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "userspace/session/session_types.h"

namespace rocattach {

struct EngineState;
class TargetNames;

// Part of SessionEngine, with the same rules for threads and errors. Texts are valid
// until the session is destroyed. INVALID_ARGUMENTS for a process that the session has
// no records of.
class SessionNames {
 public:
  struct GpuTexts {
    const char* architecture;
    const char* product_name;
    const char* uuid;
    const char* pci;
    uint32_t compute_units;
  };

  explicit SessionNames(std::shared_ptr<EngineState> state)
      : state_(std::move(state)) {}

  // KERNEL_NOT_FOUND.
  absl::StatusOr<const char*> Kernel(SessionId session, pid_t pid,
                                     uint32_t kernel) const;
  // INVALID_DOMAIN_ID, INVALID_OPERATION_ID.
  absl::StatusOr<const char*> Operation(SessionId session, pid_t pid,
                                        TraceDomain domain, uint32_t operation) const;
  // AGENT_NOT_FOUND.
  absl::StatusOr<GpuTexts> Gpu(SessionId session, pid_t pid, uint32_t number) const;

 private:
  absl::StatusOr<std::shared_ptr<TargetNames>> Names(SessionId session,
                                                     pid_t pid) const;
  // A copy of the text that lives as long as the session.
  absl::StatusOr<const char*> Keep(SessionId session, std::string text) const;

  const std::shared_ptr<EngineState> state_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SESSION_NAMES_H_
