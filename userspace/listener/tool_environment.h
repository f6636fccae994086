// The environment variables of a tool in its process, and their removal.
#ifndef ROCATTACH_USERSPACE_LISTENER_TOOL_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_LISTENER_TOOL_ENVIRONMENT_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/call_stub.h"
#include "injector/stub/remote_address.h"
#include "userspace/listener/environment_buffer.h"

namespace rocattach {

// rocprofiler_register_attach() sets variables, and rocprofiler-register never removes
// them. This saves the values from before and restores them by calling functions of the
// process's C library: getenv() before the attach; getenv(), setenv() and unsetenv()
// after the detach.
class ToolEnvironment {
 public:
  // Calls a function of the process with these arguments and returns its result.
  using Caller = std::function<absl::StatusOr<uint64_t>(
      const char* name, RemoteAddress function, std::array<CallArgument, 2> arguments)>;

  // Finds the functions. NOT_FOUND: the process has no C library that exports them.
  static absl::StatusOr<ToolEnvironment> Open(pid_t pid, const Maps& maps);

  // Call before the attach: saves the present values of these variables.
  absl::Status Remember(const Variables& variables, const Caller& call);
  // Call after the detach. Variables whose value has changed meanwhile are left alone.
  // All are tried; the error is the first one.
  absl::Status Restore(const Caller& call) const;

 private:
  struct Saved {
    std::string name;
    std::string value;                  // during the session
    std::optional<std::string> before;  // empty: there was none
  };
  // A longer value is not restored.
  static constexpr size_t kMaxValue = 128 << 10;

  explicit ToolEnvironment(TargetMemory memory) : memory_(std::move(memory)) {}
  absl::StatusOr<std::optional<std::string>> Get(const std::string& name,
                                                 const Caller& call) const;
  absl::Status RestoreOne(const Saved& saved, const Caller& call) const;

  TargetMemory memory_;
  RemoteAddress getenv_, setenv_, unsetenv_;
  std::vector<Saved> saved_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_TOOL_ENVIRONMENT_H_
