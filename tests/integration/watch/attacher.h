// A running `rocattach attach --json`.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_ATTACHER_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_ATTACHER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// The number after the last `key=` in a target's output; -1 if there is none.
int64_t Printed(const std::string& output, const std::string& key);

class Attacher {
 public:
  // Records `pids` to `file`; `more` are further options.
  Attacher(const std::string& file, const std::vector<pid_t>& pids,
           std::vector<std::string> more = {});

  // The lines with this "event" that have arrived so far.
  std::vector<nlohmann::json> Events(const std::string& name);
  // Waits until at least this many processes are attached to.
  bool Attached(size_t processes = 1);
  // Waits until at least this many events with this name have arrived.
  bool Saw(const std::string& name, size_t count = 1);
  Child& child() { return *child_; }
  Finished Stop();

 private:
  std::unique_ptr<Child> child_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_ATTACHER_H_
