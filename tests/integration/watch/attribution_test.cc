// The workload of a process is known whichever way it was attached to: at its window,
// late while busy or idle, or by taking over the collector of an earlier service.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/watch/made_group.h"
#include "tests/integration/watch/metrics_fixture.h"
#include "tests/integration/watch/running_fixture.h"

namespace rocattach::testing_support {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// The targets run in a Slurm job, in a container of Podman.
class AttributionTest : public AttachRunningTest {
 protected:
  void SetUp() override {
    AttachRunningTest::SetUp();
    if (IsSkipped()) return;
    group_.emplace(std::vector<std::string>{"slurm", "uid_0", "job_4", "step_0",
                                            "libpod-payload-" + std::string(64, 'c')});
    if (!group_->valid()) {
      ASSERT_EQ(getenv("CI"), nullptr) << "no control groups of the unified hierarchy";
      GTEST_SKIP() << "no control groups of the unified hierarchy";
    }
  }

  std::unique_ptr<Child> StartIn(std::vector<std::string> more) {
    std::vector<std::string> command = {"hip_late", "-m",      "100",        "--until",
                                        Path("go"), "--ready", Path("ready")};
    command.insert(command.end(), more.begin(), more.end());
    std::filesystem::remove(Path("ready"));
    std::filesystem::remove(Path("go"));
    return std::make_unique<Child>(
        group_->Within(OnSimgpu(command)),
        Child::Options{.environment = {"SIMGPU_UNRUNG_NS=5000000000"},
                       .dies_with_us = true});
  }
  std::unique_ptr<Child> StartReady(const std::vector<std::string>& more) {
    auto child = StartIn(more);
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return child;
  }
  Finished Native(const std::vector<std::string>& more) {
    auto child = StartReady(more);
    Change();
    return child->Wait();
  }

  // Arguments of a service that attaches to all processes.
  std::vector<std::string> Service(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--auto", "--metrics-listen", "0", "--socket",
                                      Path("control")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Expects the job and the container in /metrics, `rocattach why` and `rocattach top`.
  void ExpectNamed(WatcherProcess* watcher, pid_t pid) const {
    const auto ready = watcher->Events("ready");
    ASSERT_EQ(ready.size(), 1u);
    const std::string address = ready[0].value("metrics", "");
    const std::string begin = absl::StrCat("\nrocattach_target_info{pid=\"", pid, "\"");
    std::string info;
    EXPECT_TRUE(Eventually([&] {
      const std::string page = Body(Get(*ParseListenAddress(address), "/metrics"));
      const size_t at = page.find(begin);
      if (at == std::string::npos) return false;
      info = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
      return absl::StrContains(info, "job_id=");
    })) << info;
    for (const std::string& label :
         {std::string(R"(job_id="4")"), std::string(R"(job_step="0")"),
          absl::StrCat("container_id=\"", id_, "\"")}) {
      EXPECT_THAT(info, HasSubstr(label));
    }
    EXPECT_THAT(info, HasSubstr("/hip_late\""));
    const Finished why =
        Child({ClientPath(), "why", absl::StrCat(pid), "--socket", Path("control")})
            .Wait();
    EXPECT_THAT(why.output, HasSubstr(absl::StrCat("container id ", id_)));
    EXPECT_THAT(why.output, HasSubstr("Slurm job 4, step 0"));
    const Finished top =
        Child({ClientPath(), "top", "--once", "--connect", address}).Wait();
    EXPECT_THAT(top.output, HasSubstr("job 4"));
  }
  // Expects job and container in a recording of one process; returns the process.
  RecordedProcess ExpectRecorded(const std::string& path) const {
    const Recording recording = ReadRecording(path);
    EXPECT_EQ(recording.processes.size(), 1u);
    if (recording.processes.empty()) return {};
    const RecordedProcess& process = recording.processes[0];
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    const v1::Workload& workload = process.process.workload();
    EXPECT_EQ(workload.slurm_job(), "4");
    EXPECT_EQ(workload.slurm_step(), "0");
    EXPECT_EQ(workload.container_id(), id_);
    const Finished report = Child({ClientPath(), "report", path}).Wait();
    EXPECT_THAT(report.output, HasSubstr("Slurm job 4.0"));
    return process;
  }
  static bool AttachedBy(WatcherProcess* watcher) {
    return Eventually([&] { return watcher->PollEvents("window") >= 1; });
  }

  const std::string id_ = std::string(64, 'c');
  std::optional<MadeGroup> group_;  // below the test's own group, which SetUp() creates
};

TEST_F(AttributionTest, AtTheWindow) {
  const Finished native = Native({});
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  WatcherProcess watcher(Service({}));
  ASSERT_TRUE(watcher.ready());
  auto child = StartReady({});
  ExpectNamed(&watcher, child->pid());
  Change();
  const Finished target = child->Wait();
  EXPECT_EQ(target.status, native.status);
  EXPECT_EQ(target.errors, native.errors);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process = ExpectRecorded(watcher.recording());
  EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LIVE_TABLE);
}

// Entered late, taken over by a second service, and then by `rocattach attach`.
class LateAttributionTest : public AttributionTest,
                            public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Programs, LateAttributionTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Idle" : "Busy"; });

TEST_P(LateAttributionTest, ReportsTheJobAfterLateAttachAndTakeover) {
  const std::vector<std::string> arguments =
      GetParam() ? std::vector<std::string>{"--idle"} : std::vector<std::string>{};
  const Finished native = Native(arguments);
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  auto child = StartReady(arguments);
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again ? "taken over" : "entered");
    WatcherProcess watcher(Service({"--attach-running"}));
    ASSERT_TRUE(watcher.ready());
    ASSERT_TRUE(AttachedBy(&watcher));
    ExpectNamed(&watcher, child->pid());
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    const RecordedProcess process = ExpectRecorded(watcher.recording());
    EXPECT_EQ(process.verdict.mode() == v1::WINDOW_MODE_TAKEN_OVER, again);
    if (GetParam() && !again) {
      EXPECT_EQ(process.verdict.mode(), v1::WINDOW_MODE_BLOCKED);
    }
  }
  Attacher attach(Path("t.rwa"), {child->pid()});
  ASSERT_TRUE(attach.Attached());
  Change();
  const Finished target = child->Wait();
  EXPECT_EQ(target.status, native.status);
  EXPECT_EQ(target.errors, native.errors);
  EXPECT_THAT(target.output, HasSubstr("result=ok"));
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  (void)ExpectRecorded(Path("t.rwa"));
}

}  // namespace
}  // namespace rocattach::testing_support
