// Report of libother-tool.so (tests/simrocm/other_tool).
#ifndef ROCATTACH_TESTS_INTEGRATION_SIMROCM_OTHER_TOOL_REPORT_H_
#define ROCATTACH_TESTS_INTEGRATION_SIMROCM_OTHER_TOOL_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace rocattach {

struct OtherToolReport {
  struct Sums {
    uint64_t count = 0, timed = 0, ns = 0, bytes = 0;
    bool operator==(const Sums&) const = default;
  };
  // Dispatches by queue and kernel, copies by direction.
  std::map<std::pair<uint64_t, std::string>, Sums> dispatches;
  std::map<std::string, Sums> copies;
  std::map<std::string, uint64_t> calls;
  std::map<std::string, uint64_t> total;  // the fields of the last line
  bool complete = false;                  // the last line is there

  uint64_t Total(const std::string& name) const;
  uint64_t TimedDispatches() const;
  uint64_t TimedCopies() const;
};

OtherToolReport ReadOtherToolReport(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_SIMROCM_OTHER_TOOL_REPORT_H_
