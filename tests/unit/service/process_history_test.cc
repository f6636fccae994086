#include "userspace/service/process_history.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

v1::Process Named(pid_t pid, uint64_t ticks, const std::string& executable = "/bin/a") {
  v1::Process process;
  process.set_pid(static_cast<uint32_t>(pid));
  process.set_start_ticks(ticks);
  process.set_executable(executable);
  process.add_arguments("--password=secret");
  return process;
}

v1::WindowEvent Verdict(v1::WindowState state, const std::string& detail = "") {
  v1::WindowEvent verdict;
  verdict.set_state(state);
  verdict.set_detail(detail);
  return verdict;
}

TEST(ProcessHistoryTest, ProcessesWithTheSameNumberAreKeptApartByStartTime) {
  ProcessHistory history;
  history.OnVerdict(Named(7, 200), Verdict(v1::WINDOW_STATE_REFUSED, "why"));
  history.OnVerdict(Named(7, 100), Verdict(v1::WINDOW_STATE_ATTACHED));
  history.OnVerdict(Named(8, 150), Verdict(v1::WINDOW_STATE_PASSED));
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::EXITED);
  history.OnEnd(Named(7, 100), end, {});
  const v1::GetHistoryResponse found = history.Find(7);
  ASSERT_EQ(found.lives_size(), 2);
  EXPECT_EQ(found.lives(0).process().start_ticks(), 100u);
  EXPECT_EQ(found.lives(0).end().how(), v1::ProcessEnd::EXITED);
  EXPECT_EQ(found.lives(1).verdicts(0).detail(), "why");
  EXPECT_FALSE(found.lives(1).has_end());
  EXPECT_EQ(found.seen(), 3u);
  EXPECT_EQ(found.forgotten(), 0u);
  EXPECT_EQ(history.Find(9).lives_size(), 0);
}

TEST(ProcessHistoryTest, ArgumentsAreNotKept) {
  ProcessHistory history;
  history.OnVerdict(Named(7, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_EQ(history.Find(7).lives(0).process().arguments_size(), 0);
}

TEST(ProcessHistoryTest, TheWorkloadMayComeAtAnyTime) {
  ProcessHistory history;
  WorkloadIdentity workload;
  workload.slurm_job = "42";
  history.SetWorkload({7, 1}, workload);
  history.OnVerdict(Named(7, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  history.OnVerdict(Named(8, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  history.OnEnd(Named(8, 1), v1::ProcessEnd(), {});
  history.SetWorkload({8, 1}, workload);
  for (pid_t pid : {7, 8}) {
    const v1::ProcessLife life = history.Find(pid).lives(0);
    EXPECT_EQ(life.workload().slurm_job(), "42") << pid;
    EXPECT_EQ(life.process().executable(), "/bin/a") << pid;
    EXPECT_EQ(life.verdicts_size(), 1) << pid;
  }
}

TEST(ProcessHistoryTest, MissesAndFailedAttachesAreNoted) {
  ProcessHistory history;
  history.OnMissedWindow({7, 1}, "uncertain");
  history.OnNotAttached({7, 1}, "it is\nstopped");
  const v1::ProcessLife life = history.Find(7).lives(0);
  EXPECT_EQ(life.missed_window(), "uncertain");
  EXPECT_EQ(life.not_attached(), "it is?stopped");
  EXPECT_EQ(life.process().pid(), 7u);
}

TEST(ProcessHistoryTest, OnlyTheLastVerdictsOfOneProcessAreKept) {
  ProcessHistory history;
  for (int i = 0; i < 100; ++i) {
    history.OnVerdict(Named(7, 1), Verdict(v1::WINDOW_STATE_REFUSED, absl::StrCat(i)));
  }
  const v1::ProcessLife life = history.Find(7).lives(0);
  ASSERT_EQ(life.verdicts_size(), ProcessHistory::kMostVerdicts);
  EXPECT_EQ(life.verdicts_forgotten(), 92u);
  EXPECT_EQ(life.verdicts(7).detail(), "99");
}

TEST(ProcessHistoryTest, ManyProcessesStayWithinTheLimits) {
  ProcessHistory history;
  const ProcessHistory::Limits limits;
  for (int i = 1; i <= 100'000; ++i) {
    history.OnVerdict(Named(i, 1), Verdict(v1::WINDOW_STATE_REFUSED, "short"));
    ASSERT_LE(history.processes(), limits.processes);
    ASSERT_LE(history.bytes(), limits.bytes);
  }
  EXPECT_EQ(history.Find(1).lives_size(), 0);
  EXPECT_EQ(history.Find(100'000).lives_size(), 1);
  const v1::GetHistoryResponse found = history.Find(100'000);
  EXPECT_EQ(found.seen(), 100'000u);
  EXPECT_EQ(found.seen() - found.forgotten(), history.processes());
}

TEST(ProcessHistoryTest, ProcessesThatAreAttachedToAreForgottenLast) {
  ProcessHistory history({.processes = 4});
  history.OnVerdict(Named(1, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  history.OnVerdict(Named(2, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  for (pid_t pid = 10; pid < 30; ++pid) {
    history.OnVerdict(Named(pid, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
    history.OnEnd(Named(pid, 1), v1::ProcessEnd(), {});
    history.OnVerdict(Named(100 + pid, 1), Verdict(v1::WINDOW_STATE_PASSED));
  }
  for (pid_t pid : {1, 2, 29, 129}) EXPECT_EQ(history.Find(pid).lives_size(), 1) << pid;
  EXPECT_EQ(history.Find(1).forgotten(), 38u);
  // What has ended is forgotten like the others.
  history.OnEnd(Named(1, 1), v1::ProcessEnd(), {});
  for (pid_t pid = 30; pid < 32; ++pid) {
    history.OnVerdict(Named(pid, 1), Verdict(v1::WINDOW_STATE_PASSED));
  }
  EXPECT_EQ(history.Find(1).lives_size(), 1);
  history.OnVerdict(Named(32, 1), Verdict(v1::WINDOW_STATE_PASSED));
  EXPECT_EQ(history.Find(1).lives_size(), 0);
  EXPECT_EQ(history.Find(2).lives_size(), 1);
  // Beyond the limit, even those.
  for (pid_t pid = 40; pid < 50; ++pid) {
    history.OnVerdict(Named(pid, 1), Verdict(v1::WINDOW_STATE_ATTACHED));
  }
  EXPECT_EQ(history.processes(), 4u);
  EXPECT_EQ(history.Find(2).lives_size(), 0);
}

// Every text that a target can choose has its maximum length.
TEST(ProcessHistoryTest, LongTextsStayWithinTheLimits) {
  ProcessHistory history({.processes = 1000, .bytes = 1 << 20});
  const std::string text(16 * ProcessHistory::kMostTextBytes, 'x');
  for (int i = 1; i <= 300; ++i) {
    v1::Process process = Named(i, 1, text);
    process.set_hsa_library(text);
    process.set_cgroup(text);
    v1::WindowEvent verdict = Verdict(v1::WINDOW_STATE_REFUSED, text);
    verdict.mutable_collector()->set_refusal(text);
    verdict.mutable_collector()->set_other_tool(text);
    history.OnVerdict(process, verdict);
    history.OnNotAttached({i, 1}, text);
    ASSERT_LE(history.bytes(), size_t{1} << 20);
  }
  const v1::ProcessLife life = history.Find(300).lives(0);
  EXPECT_EQ(life.process().executable().size(), ProcessHistory::kMostTextBytes);
  EXPECT_EQ(life.verdicts(0).detail().size(), ProcessHistory::kMostTextBytes);
  EXPECT_GT(history.processes(), 50u);
  EXPECT_LT(history.processes(), 300u);
}

}  // namespace
}  // namespace rocattach
