// A third-party tool in a process that was started with ROCP_TOOL_ATTACH=1.
#ifndef ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_
#define ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "injector/elf/register_library.h"
#include "injector/remote_call.h"
#include "userspace/base/unique_fd.h"
#include "userspace/listener/environment_buffer.h"
#include "userspace/listener/tool_environment.h"

namespace rocattach {

// The reason why a tool was not attached or detached: a word for programs, a sentence
// for people. Words in addition to those of AttachReasonName():
//   no-listener       the process has no thread that takes calls of attachers
//   tool-invalid      the target cannot load such a library
//   tool-refused      the attach would fail, or rocprofiler-register returned an error
//   call-timeout      the call has not returned in time, and continues
//   cancelled         the same, by request
//   listener-busy     another program's call has not returned
struct ToolFailure {
  std::string reason;
  std::string detail;
  bool target_modified = false;
};

struct ToolLimits {
  uint32_t attach_msec = 30'000;
  uint32_t detach_msec = 100'000;
};

// Calls rocprofiler-register's own functions on the thread rocp-bg-attach, which exists
// for that purpose. The process is locked against other sessions of this kind for the
// lifetime of this object. If this process dies, the target runs on with the tool; the
// next session detaches it first.
class ListenerSession {
 public:
  explicit ListenerSession(pid_t pid, ToolLimits limits = {})
      : pid_(pid), limits_(limits) {}
  ListenerSession(const ListenerSession&) = delete;
  ListenerSession& operator=(const ListenerSession&) = delete;

  // Makes the checks of Attach() that call nothing in the process: that it has a
  // listener, and would find rocprofiler-sdk.
  std::optional<ToolFailure> Prepare();
  // The listener's thread ID, once Prepare() has succeeded.
  pid_t listener() const { return listener_; }
  // True if the process has loaded rocprofiler-sdk, as far as Prepare() knows.
  bool sdk_is_loaded() const { return sdk_is_loaded_; }
  // The tools for Attach() are loaded already: their names are passed on unchanged.
  void set_tools_are_loaded() { tools_are_loaded_ = true; }

  // Calls rocprofiler_register_attach(), which loads and configures the tool the first
  // time. `cancelled` ends the wait for the tool, not its work.
  std::optional<ToolFailure> Attach(const std::vector<std::string>& tools,
                                    const Variables& variables,
                                    const std::function<bool()>& cancelled = nullptr);
  // Calls rocprofiler_register_detach(), then restores the environment from before the
  // attach. No failure if the process has ended.
  std::optional<ToolFailure> Detach();

  bool attached() const { return attached_; }
  // True if the process has ended.
  bool target_ended() const;
  // The path of the tool, or the list of paths, that Attach() has passed on.
  const std::string& tool() const { return tool_; }
  // The reason why the process has kept variables of the session, after Detach(); empty
  // if it has not.
  const std::string& variables_kept() const { return variables_kept_; }
  // Time for which the listener was away from its wait in the attach.
  uint64_t call_ns() const { return call_ns_; }

 private:
  using Result = std::optional<ToolFailure>;
  Result Steps(const std::vector<std::string>& tools, const Variables& variables,
               const std::function<bool()>& cancelled);
  Result Open();
  Result FindListener();
  Result FindSdk(const Maps& maps);
  Result FindTools(const std::vector<std::string>& tools);
  std::string SdkPath(const Maps& maps) const;
  Result CheckTarget() const;
  Result DetachEarlier(const std::function<bool()>& cancelled);
  // Fails only if the listener has not come back; if a read fails, nothing is restored.
  Result RememberEnvironment(const Maps& maps, const Variables& variables,
                             const std::function<bool()>& cancelled);
  void RestoreEnvironment();
  // Calls a function of the C library, for ToolEnvironment.
  absl::StatusOr<uint64_t> CallLibc(const std::function<bool()>& cancelled,
                                    const char* name, RemoteAddress function,
                                    std::array<CallArgument, 2> arguments);
  StepResult Begin(RemoteAddress function, std::array<CallArgument, 2> arguments,
                   uint64_t purpose, std::optional<RemoteCall>* call) const;
  // Calls one of rocprofiler-register's functions and waits for it.
  Result Call(const char* name, RemoteAddress function,
              std::array<CallArgument, 2> arguments, uint64_t purpose,
              uint32_t limit_msec, const std::function<bool()>& cancelled);
  Result WaitForCall(const char* name, RemoteCall* call, uint64_t purpose,
                     uint32_t limit_msec, const std::function<bool()>& cancelled);
  ToolFailure Ended(const char* name) const;
  ToolFailure StillRunning(const char* name, absl::string_view limit) const;

  const pid_t pid_;
  const ToolLimits limits_;
  UniqueFd pidfd_;
  UniqueFd lock_;
  uint64_t start_ns_ = 0;
  pid_t listener_ = 0;
  RegisterLibrary library_;
  std::string sdk_;
  bool prepared_ = false, sdk_is_loaded_ = false, tools_are_loaded_ = false;
  std::string tool_;
  bool attached_ = false;
  uint64_t call_ns_ = 0;
  std::optional<ToolEnvironment> environment_;
  Result unfinished_call_;  // a call of the C library that has not returned
  std::string variables_kept_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_
