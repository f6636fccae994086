// Declarations that the test tool shares with its checks.
#ifndef ROCATTACH_TESTS_INTEGRATION_SIMROCM_TEST_TOOL_CHECKS_H_
#define ROCATTACH_TESTS_INTEGRATION_SIMROCM_TEST_TOOL_CHECKS_H_

#include <map>
#include <set>
#include <string>

#include "userspace/collector/sdk/abi.h"

namespace simrocm_test {

// The SDK's functions, looked up in the process.
struct Sdk {
  rocattach_sdk_functions functions{};
  std::set<std::string> missing;  // names of functions that are not there
  bool Load();
};

// Appends a line to the file SIMROCM_TOOL_OUTPUT. Thread-safe.
[[gnu::format(printf, 1, 2)]] void Put(const char* format, ...);

// Each writes "check name=… status=…" for many calls that must be refused.
void CheckWhileInitializing(const Sdk& sdk, rocattach_sdk_agent_id agent,
                            rocattach_sdk_context_id context,
                            rocattach_sdk_buffer_id buffer,
                            const std::map<std::string, rocattach_sdk_counter_id>& ids);
void CheckAfterInitialization(const Sdk& sdk, rocattach_sdk_agent_id agent,
                              rocattach_sdk_context_id context,
                              rocattach_sdk_buffer_id buffer);

}  // namespace simrocm_test

#endif  // ROCATTACH_TESTS_INTEGRATION_SIMROCM_TEST_TOOL_CHECKS_H_
