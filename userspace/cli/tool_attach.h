// rocattach attach --attach-tool-library: third-party tools in running processes.
#ifndef ROCATTACH_USERSPACE_CLI_TOOL_ATTACH_H_
#define ROCATTACH_USERSPACE_CLI_TOOL_ATTACH_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rocattach {

struct ToolAttachOptions {
  std::vector<std::string> tools;  // from ForeignTools()
  bool children = false;
  bool detach_on_eof = false;
  bool json = false;
  bool quiet = false;
  uint64_t duration_msec = 0;  // 0: until Enter, a signal, or the end of all processes
  uint32_t timeout_msec = 0;   // for one call; 0: the defaults of ToolLimits
};

// Attaches the tools, waits, detaches; returns the exit status.
int RunToolAttach(const ToolAttachOptions& options, const std::vector<pid_t>& pids);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TOOL_ATTACH_H_
