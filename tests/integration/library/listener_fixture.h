// A process that was started with ROCP_TOOL_ATTACH=1, and a tool that logs its calls.
#ifndef ROCATTACH_TESTS_INTEGRATION_LIBRARY_LISTENER_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_LIBRARY_LISTENER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/temporary_directory.h"

namespace rocattach::testing_support {

inline std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// hip_late with the simulated parts of ROCm 7: launches Before, waits until Continue(),
// and launches After.
class ListenerTarget {
 public:
  explicit ListenerTarget(std::vector<std::string> run_options = {"--attachable"},
                          std::vector<std::string> environment = {})
      : child_(Command(directory_, std::move(run_options)),
               {.environment = std::move(environment)}) {
    ready_ = Eventually([&] { return std::filesystem::exists(directory_ / "ready"); });
  }

  pid_t pid() const { return child_.pid(); }
  std::string text() const { return std::to_string(pid()); }
  bool ready() const { return ready_; }
  bool Runs() const { return kill(pid(), 0) == 0; }
  void Continue() const { std::ofstream(directory_ / "go"); }
  Child& child() { return child_; }
  const TemporaryDirectory& directory() const { return directory_; }
  // Continues, and expects that the target ends unharmed.
  void ExpectEnd() {
    Continue();
    const Finished end = child_.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_NE(end.output.find("result=ok"), std::string::npos) << end.output;
  }

  // The ID of the listener, the thread that attachers use; 0 if there is none.
  pid_t Listener() const {
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + text() + "/task")) {
      std::ifstream comm(task.path() / "comm");
      std::string name;
      std::getline(comm, name);
      if (name == "rocp-bg-attach") return atoi(task.path().filename().c_str());
    }
    return 0;
  }
  // Position of the listener: number and arguments of its system call, stack pointer
  // and instruction pointer.
  std::string ListenerPosition() const {
    std::ifstream file("/proc/" + text() + "/task/" + std::to_string(Listener()) +
                       "/syscall");
    std::string line;
    std::getline(file, line);
    return line;
  }

  // First words of the simulators' log lines, limited to those in `names`, in the order
  // of the log.
  std::vector<std::string> Log(const std::vector<std::string>& names) const {
    std::vector<std::string> words;
    for (const std::string& line : LinesOf(directory_ / "log")) {
      std::string word = line.substr(0, line.find(' '));
      if (std::find(names.begin(), names.end(), word) != names.end()) {
        words.push_back(std::move(word));
      }
    }
    return words;
  }
  // Lines that the tool has logged.
  std::vector<std::string> Tool() const { return LinesOf(directory_ / "tool"); }

  // Variables that the attacher passes to the tool; `behavior` as in listener_tool.c.
  std::vector<std::string> Environment(const std::string& behavior = "") const {
    return {"ROCPROF_TEST_LOG=" + directory_ / "tool",
            "ROCPROF_TEST_RELEASE=" + directory_ / "release",
            "ROCPROF_TEST_DO=" + behavior};
  }
  void ReleaseTool() const { std::ofstream(directory_ / "release"); }

 private:
  static std::vector<std::string> Command(const TemporaryDirectory& directory,
                                          std::vector<std::string> run_options) {
    std::vector<std::string> command = {SimrocmRunPath(), "--log", directory / "log"};
    command.insert(command.end(), run_options.begin(), run_options.end());
    command.insert(command.end(),
                   {TargetPath("hip_late"), "-m", "50", "--idle", "--until",
                    directory / "go", "--ready", directory / "ready"});
    return command;
  }

  TemporaryDirectory directory_;
  Child child_;
  bool ready_ = false;
};

// Names under which the documented steps are logged.
inline const std::vector<std::string> kSteps = {
    "register.attach", "register.detach", "tool.configure", "tool.configure_attach",
    "tool.initialize", "tool.attach",     "tool.detach",    "tool.finalize"};

// Result of `rocattach attach -t`, and the events that it has reported.
struct Attached {
  Finished run;
  std::vector<nlohmann::json> events;

  // The first event of this name; empty if there is none.
  nlohmann::json Event(const std::string& name) const {
    for (const nlohmann::json& event : events) {
      if (event.value("event", "") == name) return event;
    }
    return nlohmann::json::object();
  }
  std::string Reason() const { return Event("not_attached").value("reason", ""); }
  std::string Detail() const { return Event("not_attached").value("detail", ""); }
};

class ListenerTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  static std::vector<std::string> Command(const std::string& pid,
                                          const std::string& tool,
                                          std::vector<std::string> more = {}) {
    std::vector<std::string> words = {ClientPath(), "attach", "--json", "-p",
                                      pid,          "-t",     tool};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Attached Finish(Child* child) {
    Attached result;
    result.run = child->Wait();
    std::istringstream lines(result.run.output);
    for (std::string line; std::getline(lines, line);) {
      result.events.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return result;
  }
  // Attaches, stays for 100 ms, and detaches.
  static Attached Attach(const ListenerTarget& target, const std::string& behavior = "",
                         const std::string& tool = ROCATTACH_TEST_LISTENER_TOOL,
                         std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--attach-duration-msec", "100"});
    Child child(Command(target.text(), tool, std::move(more)),
                {.environment = target.Environment(behavior)});
    return Finish(&child);
  }
  static void ExpectAttached(const Attached& attached) {
    EXPECT_TRUE(attached.run.exited_with(0))
        << attached.run.output << attached.run.errors;
    EXPECT_EQ(attached.Event("attached").value("entry", ""), "listener");
    EXPECT_EQ(attached.Event("result").value("status", ""), "detached");
  }
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_LIBRARY_LISTENER_FIXTURE_H_
