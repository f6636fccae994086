// First attaches to processes that are running already, with the simulated parts of a
// newer ROCm.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_FIRST_ATTACH_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_FIRST_ATTACH_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sessions_fixture.h"

namespace rocattach::testing_support {

class FirstAttachTest : public SessionsTest {
 protected:
  // A target that dispatches until End(), then forks. `variable`: NAME=VALUE for it.
  std::unique_ptr<Child> StartTarget(std::vector<std::string> simrocm = {},
                                     const char* variable = "NONE=") {
    std::vector<std::string> words = {"env", variable};
    const std::vector<std::string> command = OnSimrocm(
        std::move(simrocm),
        {"fork_again", "--open", "--ready", Path("ready"), "--until", Path("end")});
    words.insert(words.end(), command.begin(), command.end());
    auto target = std::make_unique<Child>(words, Child::Options{.dies_with_us = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  // Records the process for 1.5 seconds with these options; returns its result.
  nlohmann::json Record(pid_t pid, std::vector<std::string> options, int exit_status,
                        const std::string& name = "t") {
    options.insert(options.end(), {"--kfd-topology", directory_.path()});
    Attacher attach(directory_.path() + "/" + name + ".rwa", {pid}, options);
    EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
    usleep(1'500'000);  // the time to record
    const Finished end = attach.Stop();
    EXPECT_TRUE(end.exited_with(exit_status)) << end.output << end.errors;
    const auto results = attach.Events("result");
    return results.empty() ? nlohmann::json() : results[0];
  }
  void End(Child* target) {
    std::ofstream(Path("end")).put('\n');
    const Finished end = target->Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_THAT(end.output, testing::HasSubstr("result=ok"));
    EXPECT_EQ(end.errors, "");
  }
};

// The items that the result reports as missing; expects `why` in each reason.
inline std::vector<std::string> Missing(const nlohmann::json& result, const char* why) {
  std::vector<std::string> missing;
  for (const auto& one : result.value("missing", nlohmann::json::array())) {
    missing.push_back(one.value("what", ""));
    EXPECT_THAT(one.value("why", ""), testing::HasSubstr(why)) << missing.back();
  }
  return missing;
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_FIRST_ATTACH_FIXTURE_H_
