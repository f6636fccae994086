// Output for people: the live line, messages, the summary, and scripts/run.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/terminal.h"

namespace rocattach::testing_support {
namespace {

constexpr char kCtrlC[] = "\x03";
constexpr char kClear[] = "\r\033[K";

class ConsoleTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  std::vector<std::string> Watcher(std::vector<std::string> arguments) const {
    std::vector<std::string> words = {WatcherPath(), "--collector",     CollectorPath(),
                                      "-d",          directory_.path(), "-o",
                                      "run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  std::string recording() const { return directory_.path() + "/run.rwa"; }
  ExecutableDirectory directory_;
};

// The number right before `unit`, written with commas; -1 if there is none.
int64_t NumberBefore(const std::string& line, const std::string& unit) {
  size_t end = line.find(unit);
  if (end == std::string::npos) return -1;
  int64_t number = -1, factor = 1;
  for (size_t i = end; i-- > 0 && (isdigit(line[i]) != 0 || line[i] == ',');) {
    if (line[i] == ',') continue;
    number = std::max<int64_t>(number, 0) + factor * (line[i] - '0');
    factor *= 10;
  }
  return number;
}

// Every state of the live line, in order.
std::vector<std::string> LiveLines(const std::string& seen) {
  std::vector<std::string> lines;
  for (size_t at = seen.find(" running, "); at != std::string::npos;
       at = seen.find(" running, ", at + 1)) {
    size_t begin = seen.find_last_of("\nK", at) + 1;
    lines.push_back(seen.substr(begin, seen.find_first_of("\r\n", at) - begin));
  }
  return lines;
}

// A process runs for several ticks, and one tick follows its end: each dispatch is
// counted once, and no message is on the same line as the live line.
TEST_F(ConsoleTest, TheLiveLineCountsEachDispatchOnce) {
  Terminal watcher(Watcher({"--auto"}));
  ASSERT_NE(watcher.ReadUntil("output ").find("hold 'yielding'"), std::string::npos)
      << watcher.seen();
  Child target(
      OnSimgpu({"hsa_dispatch", "-n", "150", "--rounds", "4", "--sleep-msec", "500"}));
  pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  watcher.ReadUntil("600 dispatches, 0 copies\r\n");
  watcher.ReadUntil("0 running, 1 attached | 600 dispatches");
  watcher.Type(kCtrlC);
  int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;

  const std::string& seen = watcher.seen();
  int64_t before = 0;
  for (const std::string& line : LiveLines(seen)) {
    int64_t dispatches = NumberBefore(line, " dispatches (");
    EXPECT_GE(dispatches, before) << line;
    EXPECT_LE(dispatches, 600) << line;
    // Two ticks are half a second apart.
    EXPECT_LE(NumberBefore(line, "/s)"), 1200) << line;
    before = dispatches;
  }
  EXPECT_EQ(before, 600);
  EXPECT_NE(seen.find("1 running, 1 attached | "), std::string::npos) << seen;
  const std::string name = "hsa_dispatch (pid " + std::to_string(pid) + ")";
  for (const std::string& message :
       {"attached to " + name + ", held ",
        name + " exited with status 0: 600 dispatches, 0 copies\r\n",
        std::string("1 attached, 0 passed, 0 refused, 0 missed; 600 dispatches, 0 "
                    "copies, 0 lost\r\n"),
        std::string("held median "), "wrote " + recording() + "\r\n"}) {
    EXPECT_NE(seen.find("rocattach-watch: " + message), std::string::npos)
        << message << "\n"
        << seen;
  }
  // The live line is cleared before each message. The terminal echoes ^C.
  for (size_t at = seen.find("rocattach-watch: "); at != std::string::npos;
       at = seen.find("rocattach-watch: ", at + 1)) {
    const std::string ahead = seen.substr(0, at);
    EXPECT_TRUE(at == 0 || ahead.back() == '\n' ||
                (ahead.size() >= 4 && ahead.substr(at - 4) == kClear))
        << seen.substr(at, 60);
  }
}

// A program that is refused may be started again and again.
TEST_F(ConsoleTest, TheSameRefusalIsNamedOnce) {
  Terminal watcher(Watcher({"--auto", "--max-processes", "1"}));
  watcher.ReadUntil("output ");
  Child busy(OnSimgpu({"hsa_dispatch", "-n", "5", "--rounds", "1000000", "--sleep-msec",
                       "20"}),
             {.dies_with_us = true});
  watcher.ReadUntil("attached to hsa_dispatch");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Child(OnSimgpu({"hsa_dispatch", "-n", "5"})).Wait().exited_with(0));
  }
  busy.Signal(SIGKILL);
  (void)busy.Wait();
  watcher.ReadUntil("hsa_dispatch (pid " + std::to_string(busy.pid()) + ") ");
  watcher.Type(kCtrlC);
  (void)watcher.Wait();
  const std::string& seen = watcher.seen();
  const std::string refused = "rocattach-watch: refused hsa_dispatch";
  const size_t first = seen.find(refused);
  ASSERT_NE(first, std::string::npos) << seen;
  EXPECT_EQ(seen.find(refused, first + 1), std::string::npos) << seen;
  EXPECT_NE(seen.find("2 of those that were refused are not named: same reasons"),
            std::string::npos)
      << seen;
  EXPECT_NE(seen.find("3 refused"), std::string::npos) << seen;
}

// As in `rocattach-watch --auto -o - -- ./app | rocattach report -`.
TEST_F(ConsoleTest, TheCommandsWordsStayOutOfTheStream) {
  const std::vector<std::string> target = OnSimgpu({"hsa_dispatch", "-n", "40"});
  std::vector<std::string> words = {WatcherPath(), "--auto",      "--hold-timeout-msec",
                                    "10000",       "--collector", CollectorPath(),
                                    "-o",          "-",           "--"};
  words.insert(words.end(), target.begin(), target.end());
  const Finished native = Child(target).Wait();
  const Finished end = Child(words).Wait();
  ASSERT_TRUE(native.exited_with(0) && end.exited_with(0)) << end.errors;
  EXPECT_NE(native.output.find("result=ok"), std::string::npos);
  EXPECT_NE(end.errors.find("result=ok"), std::string::npos) << end.errors;
  std::ofstream(recording(), std::ios::binary) << end.output;
  const Recording read = ReadRecording(recording());
  EXPECT_TRUE(read.ended);
  EXPECT_EQ(read.damage.size(), 0u);
  EXPECT_EQ(read.Process("hsa_dispatch").dispatches.size(), 40u);
}

// However many processes are passed: one line for each reason, and their number.
TEST_F(ConsoleTest, ProcessesThatAreLeftAloneAreCounted) {
  Terminal watcher(Watcher({"--auto", "-n", "nobody"}));
  watcher.ReadUntil("output ");
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "5"}).exited_with(0));
  }
  watcher.Type(kCtrlC);
  const int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const std::string& seen = watcher.seen();
  const size_t first = seen.find("rocattach-watch: passed hsa_dispatch");
  ASSERT_NE(first, std::string::npos) << seen;
  EXPECT_EQ(seen.find("rocattach-watch: passed ", first + 1), std::string::npos)
      << seen;
  EXPECT_NE(seen.find("0 attached, 4 passed"), std::string::npos) << seen;
  EXPECT_NE(seen.find("3 of those that passed"), std::string::npos) << seen;
}

TEST_F(ConsoleTest, TheLogIsOneJsonObjectALine) {
  const Finished native = RunTarget({"hsa_dispatch", "-n", "5"});
  EXPECT_TRUE(native.exited_with(0));
  std::vector<std::string> words = Watcher({"--auto", "--log-format", "json", "--"});
  for (const std::string& word : OnSimgpu({"hsa_dispatch", "-n", "5"})) {
    words.push_back(word);
  }
  const Finished run = Child(words).Wait();
  EXPECT_TRUE(run.exited_with(0)) << run.errors;
  // The rate follows, which differs from run to run.
  const size_t counts = native.output.find(" rate=");
  EXPECT_EQ(run.output.substr(0, counts), native.output.substr(0, counts));

  std::map<std::string, nlohmann::json> events;
  std::istringstream lines(run.errors);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* key : {"time", "level", "event", "message"}) {
      EXPECT_TRUE(json.contains(key) && json[key].is_string()) << line;
    }
    events[json.value("event", "")] = json;
  }
  for (const char* event : {"ready", "attached", "end", "summary", "wrote"}) {
    ASSERT_EQ(events.count(event), 1u) << event << " in " << run.errors;
    EXPECT_EQ(events[event]["level"], "info") << events[event];
  }
  EXPECT_EQ(events["attached"]["comm"], "hsa_dispatch");
  EXPECT_EQ(events["attached"]["pid"], events["end"]["pid"]);
  EXPECT_EQ(events["attached"]["uid"], 0);
  EXPECT_GT(events["end"]["pid"], 0);
}

// Errors that end the service before it watches anything are log entries, too.
TEST_F(ConsoleTest, AFailureIsAnEntryOfTheLog) {
  const std::string file = directory_.path() + "/file";
  std::ofstream(file) << "no directory";
  const Finished run = Child(Watcher({"--auto", "--log-format", "json", "--socket",
                                      file + "/socket", "--duration-msec", "2000"}))
                           .Wait();
  EXPECT_TRUE(run.exited_with(3)) << run.errors;
  const auto json =
      nlohmann::json::parse(run.errors, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << run.errors;
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["event"], "failed");
}

TEST_F(ConsoleTest, QuietSaysProblemsOnly) {
  // Its socket shows that it is ready; a missed window would be printed as a problem.
  const std::string socket = directory_.path() + "/socket";
  Terminal watcher(Watcher({"--auto", "-q", "--socket", socket}));
  EXPECT_TRUE(Eventually([&] { return access(socket.c_str(), F_OK) == 0; }));
  EXPECT_TRUE(RunTarget({"hsa_dispatch", "-n", "5"}).exited_with(0));
  watcher.Type(kCtrlC);
  int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(watcher.seen(), "^C");
  EXPECT_TRUE(ReadRecording(recording()).ended);
}

// The command's output is on lines of its own.
TEST_F(ConsoleTest, ACommandHasTheTerminalForItself) {
  std::vector<std::string> words = Watcher({"--auto", "--"});
  for (const std::string& word :
       OnSimgpu({"hsa_dispatch", "-n", "10", "--rounds", "3", "--sleep-msec", "600"})) {
    words.push_back(word);
  }
  Terminal watcher(words);
  int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(watcher.seen().find('\033'), std::string::npos) << watcher.seen();
  int own = 0;
  for (const std::string& line : watcher.Lines()) {
    if (line.rfind("dispatches=30 ", 0) == 0) {
      ++own;
    } else {
      EXPECT_EQ(line.rfind("rocattach-watch: ", 0), 0u) << line;
    }
  }
  EXPECT_EQ(own, 1) << watcher.seen();
}

// The terminal sends Ctrl-C to the service and the command; the command gets it once.
// It runs on for a while, so that it would hear of it a second time.
TEST_F(ConsoleTest, CtrlCReachesTheCommandOnce) {
  Terminal watcher(Watcher({"--", "sh", "-c",
                            "trap 'echo heard; over=1' INT; echo listening; "
                            "while [ -z \"$over\" ]; do sleep 0.1; done; "
                            "sleep 0.3; exit 9"}));
  watcher.ReadUntil("listening");
  watcher.Type(kCtrlC);
  int status = watcher.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9) << status;
  const std::string& seen = watcher.seen();
  size_t first = seen.find("heard");
  ASSERT_NE(first, std::string::npos) << seen;
  EXPECT_EQ(seen.find("heard", first + 1), std::string::npos) << seen;
  EXPECT_TRUE(ReadRecording(recording()).ended);
}

// scripts/run puts its options in front of the user's, and shows what was recorded.
TEST_F(ConsoleTest, RunScriptPassesOptionsAndPrintsAReport) {
  const std::string where = directory_.path() + "/chosen";
  Child script({ROCATTACH_TEST_SOURCE "/scripts/run", "-d", where, "-o", "mine", "--",
                TargetPath("hsa_dispatch"), "-n", "12"},
               {.environment = {"ROCATTACH_BUILD=" ROCATTACH_TEST_BUILD}});
  Finished result = script.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
  EXPECT_NE(result.errors.find("wrote " + where + "/mine.rwa"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.output.find("nothing lost"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("12 dispatches"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("The recording: " + where + "/mine.rwa"),
            std::string::npos)
      << result.output;
}

// Each process is converted when it has ended, while the service runs on.
TEST_F(ConsoleTest, ProcessesAreConvertedWhenTheyEnd) {
  const Finished native = Child(OnSimgpu({"hsa_dispatch", "-n", "50"})).Wait();
  EXPECT_TRUE(native.exited_with(0)) << native.errors;
  for (const bool own_files : {false, true}) {
    const std::string folder = directory_.path() + (own_files ? "/own" : "/shared");
    Child watcher({WatcherPath(), "--collector", CollectorPath(), "-d", folder, "-o",
                   own_files ? "p%pid%" : "all", "--auto", "--json", "-f", "csv,json"},
                  Child::Options{.dies_with_us = true});
    ASSERT_TRUE(Eventually([&] {
      return watcher.PollOutput().find("\"event\":\"ready\"") != std::string::npos;
    }));
    std::vector<std::string> files;
    for (int i = 0; i < 2; ++i) {
      Child target(OnSimgpu({"hsa_dispatch", "-n", "50"}));
      const std::string pid = std::to_string(target.pid());
      EXPECT_TRUE(target.Wait().exited_with(0));
      files.push_back(folder + (own_files ? "/p" + pid
                                : i == 0  ? "/all"
                                          : "/all_" + pid));
      EXPECT_TRUE(Eventually([&] {
        return access((files.back() + "_kernel_trace.csv").c_str(), F_OK) == 0 &&
               access((files.back() + "_results.json").c_str(), F_OK) == 0;
      })) << files.back();
    }
    watcher.Signal(SIGINT);
    const Finished end = watcher.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.errors;
    for (const std::string& file : files) {
      std::ifstream rows(file + "_kernel_trace.csv");
      EXPECT_EQ(std::count(std::istreambuf_iterator<char>(rows), {}, '\n'), 51) << file;
    }
  }
}

TEST_F(ConsoleTest, AFailedConversionLeavesTheRecording) {
  std::ofstream(directory_.path() + "/run_kernel_trace.csv") << "is there already\n";
  std::vector<std::string> words = Watcher({"--auto", "-f", "csv", "--"});
  for (const std::string& word : OnSimgpu({"hsa_dispatch", "-n", "50"})) {
    words.push_back(word);
  }
  const Finished end = Child(words).Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.errors;
  EXPECT_NE(end.errors.find("run_kernel_trace.csv exists"), std::string::npos);
  EXPECT_NE(end.errors.find("the recording is not affected: rocattach convert " +
                            recording() + " -f csv"),
            std::string::npos)
      << end.errors;
  EXPECT_EQ(ReadRecording(recording()).Process("hsa_dispatch").dispatches.size(), 50u);
}

}  // namespace
}  // namespace rocattach::testing_support
