// A tool of somebody else in a process that was started with ROCP_TOOL_ATTACH=1.
#ifndef ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_
#define ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "injector/register_library.h"
#include "injector/remote_call.h"
#include "userspace/base/unique_fd.h"
#include "userspace/listener/environment_buffer.h"
#include "userspace/listener/tool_environment.h"

namespace rocattach {

// Why a tool was not attached or detached: a word for programs, a sentence for people.
// The words beside those of AttachReasonName():
//   no-listener       the process cannot be asked
//   tool-invalid      the target cannot load such a library
//   tool-refused      rocprofiler-register has answered with an error
//   call-timeout      the call has not returned in time, and goes on
//   cancelled         the same, by request
//   listener-busy     a call of somebody else has not returned
struct ToolFailure {
  std::string reason;
  std::string detail;
  bool target_modified = false;
};

struct ToolLimits {
  uint32_t attach_msec = 30'000;
  uint32_t detach_msec = 100'000;
};

// rocprofiler-register's own functions are called on the thread rocp-bg-attach, which
// exists for that. The process is locked against other sessions of this kind for the
// lifetime of this object. If this process dies, the target runs on with the tool; the
// next session detaches it first.
class ListenerSession {
 public:
  explicit ListenerSession(pid_t pid, ToolLimits limits = {})
      : pid_(pid), limits_(limits) {}
  ListenerSession(const ListenerSession&) = delete;
  ListenerSession& operator=(const ListenerSession&) = delete;

  // What Attach() does before it calls anything in the process: is there a thread that
  // can be asked, and would it find rocprofiler-sdk?
  std::optional<ToolFailure> Prepare();
  // The thread, once that has succeeded.
  pid_t listener() const { return listener_; }
  // Whether the process has loaded rocprofiler-sdk, as far as Prepare() knows.
  bool sdk_is_loaded() const { return sdk_is_loaded_; }
  // The tools of Attach() are loaded already: their names are passed as they are.
  void set_tools_are_loaded() { tools_are_loaded_ = true; }

  // rocprofiler_register_attach(): on the first time the tool is loaded and configured.
  // `cancelled` ends the wait for the tool, not its work.
  std::optional<ToolFailure> Attach(const std::vector<std::string>& tools,
                                    const Variables& variables,
                                    const std::function<bool()>& cancelled = nullptr);
  // rocprofiler_register_detach(), and then the environment of before the attach. No
  // failure if the process has ended.
  std::optional<ToolFailure> Detach();

  bool attached() const { return attached_; }
  // The process has ended.
  bool target_ended() const;
  // What the tool was called in the attach, after Attach().
  const std::string& tool() const { return tool_; }
  // Why the process has kept variables of the session, after Detach(); empty if it has
  // not.
  const std::string& variables_kept() const { return variables_kept_; }
  // How long the thread was away from its wait in the attach.
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
  // A failure only if the thread has not come back; what cannot be read is kept.
  Result RememberEnvironment(const Maps& maps, const Variables& variables,
                             const std::function<bool()>& cancelled);
  void RestoreEnvironment();
  // For ToolEnvironment.
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
  Result unfinished_call_;  // of the C library
  std::string variables_kept_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LISTENER_LISTENER_SESSION_H_
