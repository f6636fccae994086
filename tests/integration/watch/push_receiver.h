// A server for pushes, which decodes them with a third-party library.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_PUSH_RECEIVER_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_PUSH_RECEIVER_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

class PushReceiver {
 public:
  // True if these files exist in the folder of oracles, and there is node to run them.
  static bool HasOracles(const std::string& oracles,
                         const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      struct stat unused = {};
      if (stat(absl::StrCat(oracles, "/", file).c_str(), &unused) != 0) return false;
    }
    return system("command -v node >/dev/null") == 0;
  }

  // `program` prints its port on one line, and then each push as a JSON object.
  PushReceiver(const std::string& program, const std::string& oracles)
      : child_({"node", program, oracles}, Dies()) {
    EXPECT_TRUE(Eventually(
        [&] { return child_.PollOutput().find('\n') != std::string::npos; }));
    const std::string output = child_.PollOutput();
    url_ = absl::StrCat("http://127.0.0.1:", output.substr(0, output.find('\n')));
  }
  ~PushReceiver() { Kill(); }

  const std::string& url() const { return url_; }
  // The pushes that have arrived so far.
  std::vector<nlohmann::json> Requests() {
    std::vector<nlohmann::json> requests;
    const std::string output = child_.PollOutput();
    for (absl::string_view line : absl::StrSplit(output, '\n')) {
      auto json = nlohmann::json::parse(std::string(line), nullptr, false);
      if (json.is_object()) requests.push_back(std::move(json));
    }
    return requests;
  }
  void Kill() {
    if (std::exchange(killed_, true)) return;
    child_.Signal(SIGKILL);
    (void)child_.Wait();
  }

 private:
  static Child::Options Dies() {
    Child::Options options;
    options.dies_with_us = true;
    return options;
  }

  Child child_;
  bool killed_ = false;
  std::string url_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_PUSH_RECEIVER_H_
