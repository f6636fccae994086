// The options by which people say what a session is to collect: of rocattach-watch and
// of `rocattach session start`.
#ifndef ROCATTACH_USERSPACE_CLI_SESSION_ARGUMENTS_H_
#define ROCATTACH_USERSPACE_CLI_SESSION_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/session/collection_period.h"
#include "userspace/session/counter_catalog.h"
#include "userspace/session/session_types.h"

namespace CLI {
class App;
}

namespace rocattach {

struct SessionArguments {
  std::vector<std::vector<std::string>> pmc;
  std::vector<std::string> sets, blocks;
  std::string architecture;  // which sets and blocks are meant; empty: the machine's
  std::string input;
  std::vector<std::string> extra_counters;  // files
  bool single_pass = false;
  std::vector<std::string> include, exclude;
  std::string iterations;
  std::vector<std::string> periods;
  std::string period_unit = "sec";
  uint64_t duration_msec = 0;
  bool hsa_trace = false, hip_trace = false, marker_trace = false;
};

// What they come to.
struct SessionWish {
  std::vector<FilterSpec> filters;  // empty: no session was asked for
  std::vector<CollectionPeriod> periods;
  uint64_t duration_ns = 0;
  std::vector<std::string> ignored;  // keys of the input file that mean nothing here
};

void AddSessionOptions(CLI::App* app, SessionArguments* arguments);

// The built-in counters and those of the files that were named.
absl::StatusOr<CounterCatalog> LoadCatalog(const std::vector<std::string>& files);

// Reads the input file and checks every name against the catalog, to which it adds the
// file's own counters.
absl::StatusOr<SessionWish> InterpretSession(const SessionArguments& arguments,
                                             CounterCatalog* catalog);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SESSION_ARGUMENTS_H_
