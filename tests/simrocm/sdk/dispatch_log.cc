#include "tests/simrocm/sdk/dispatch_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"

namespace simrocm::sdk {

void LogDispatch(const rocattach_sdk_dispatch_data& data, bool counted) {
  static const auto* path = new std::string(GetString("SIMROCM_DISPATCH_LOG"));
  if (path->empty()) return;
  const rocattach_sdk_dispatch_info& info = data.dispatch_info;
  const rocattach_sdk_agent* agent = FindAgent(info.agent_id);
  char line[256];
  const int length =
      snprintf(line, sizeof(line),
               "id=%llu node=%u start=%llu end=%llu grid=%u,%u,%u workgroup=%u,%u,%u "
               "counted=%d\n",
               static_cast<unsigned long long>(info.dispatch_id),
               agent != nullptr ? agent->node_id : 0,
               static_cast<unsigned long long>(data.start_timestamp),
               static_cast<unsigned long long>(data.end_timestamp), info.grid_size.x,
               info.grid_size.y, info.grid_size.z, info.workgroup_size.x,
               info.workgroup_size.y, info.workgroup_size.z, counted ? 1 : 0);
  // As in call_log.cc: no descriptor stays in the program, and lines stay whole.
  const int fd = open(path->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, line, static_cast<size_t>(length)) < 0) { /* a test will miss it */
  }
  close(fd);
}

}  // namespace simrocm::sdk
