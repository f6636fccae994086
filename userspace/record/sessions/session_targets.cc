#include "userspace/record/sessions/session_targets.h"

#include <time.h>

#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_handle.h"

namespace rocattach {
namespace {

// The recorder's thread answers at the latest when TargetSession gives up; a hanging
// disk must not hang the callers.
constexpr auto kPatience = std::chrono::seconds(10);

// Budget of a call of Drain(), see Target::Drain.
constexpr uint64_t kDrainCost = 32'768;

absl::Status Gone(ProcessId target) {
  return absl::NotFoundError(
      absl::StrCat("process ", target.pid, " is not, or no longer, attached"));
}

}  // namespace

absl::Status SessionTargets::Ask(std::function<void(TargetSession::Done)> work) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  auto done = [promise](absl::Status status) { promise->set_value(std::move(status)); };
  if (!recorder_->RunOnThread([work = std::move(work), done] { work(done); })) {
    return absl::UnavailableError("recording is ending");
  }
  std::future<absl::Status> answer = promise->get_future();
  if (answer.wait_for(kPatience) != std::future_status::ready) {
    return absl::DeadlineExceededError("the recorder does not answer");
  }
  return answer.get();
}

void SessionTargets::Release(ProcessId id) {
  recorder_->RunOnThread([this, id] {
    if (Target* target = recorder_->FindTarget(id)) target->AcknowledgeMapped();
  });
}

void SessionTargets::WriteRefusal(ProcessId id, uint64_t session,
                                  const std::string& why) {
  recorder_->RunOnThread([this, id, session, why] {
    if (Target* target = recorder_->FindTarget(id)) {
      target->session()->WriteRefusal(session, why);
    }
  });
}

std::vector<ProcessId> SessionTargets::Targets() {
  absl::MutexLock lock(&mutex_);
  std::vector<ProcessId> ids;
  for (const auto& [id, description] : targets_) ids.push_back(id);
  return ids;
}

absl::StatusOr<TargetDescription> SessionTargets::Describe(ProcessId target) {
  absl::MutexLock lock(&mutex_);
  auto found = targets_.find(target);
  if (found == targets_.end()) return Gone(target);
  return found->second;
}

absl::StatusOr<ProcessId> SessionTargets::FindTarget(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, description] : targets_) {
    if (id.pid == pid) return id;
  }
  return absl::NotFoundError(
      absl::StrCat("process ", pid,
                   " is not attached; 'rocattach session status' lists "
                   "those that are"));
}

absl::Status SessionTargets::Start(ProcessId id,
                                   std::shared_ptr<const CompiledPlan> plan,
                                   std::shared_ptr<RecordSink> sink) {
  const uint64_t session = Number(static_cast<SessionId>(plan->image->session_id));
  auto start = [this, id, plan, sink, session](TargetSession::Done done) {
    Target* target = recorder_->FindTarget(id);
    if (target == nullptr) {
      done(Gone(id));
      return;
    }
    target->session()->Start(plan, sink, session,
                             [this, id, done](absl::Status status) {
                               // The start may have shown that it lacks something.
                               if (!status.ok()) DescribeAgain(id);
                               done(std::move(status));
                             });
    // The plan is in place, so it applies from the first dispatch when the process
    // continues.
    target->AcknowledgeMapped();
  };
  if (!recorder_->OnRecorderThread()) return Ask(start);
  // Inside a sink's call no other code polls for the answer.
  std::optional<absl::Status> result;
  start([&result](absl::Status status) { result = std::move(status); });
  while (!result.has_value()) {
    Target* target = recorder_->FindTarget(id);
    if (target == nullptr) return Gone(id);
    target->session()->Poll(BootNs());
    const timespec pause = {0, 50'000};
    nanosleep(&pause, nullptr);
  }
  return *result;
}

void SessionTargets::DescribeAgain(ProcessId id) {
  Target* target = recorder_->FindTarget(id);
  if (target == nullptr) return;
  auto description = target->session()->Describe(target->opened().sdk_missing);
  if (!description.has_value()) return;
  absl::MutexLock lock(&mutex_);
  const auto found = targets_.find(id);
  if (found != targets_.end()) found->second = *std::move(description);
}

absl::Status SessionTargets::Stop(ProcessId id) {
  auto stop = [this, id] {
    if (Target* target = recorder_->FindTarget(id)) target->session()->Stop();
  };
  if (recorder_->OnRecorderThread()) {
    stop();
  } else {
    recorder_->RunOnThread(stop);
  }
  return absl::OkStatus();
}

absl::Status SessionTargets::Settle(ProcessId id) {
  return Ask([this, id](TargetSession::Done done) {
    Target* target = recorder_->FindTarget(id);
    if (target == nullptr) {
      done(absl::OkStatus());  // it has ended, and everything has been delivered
      return;
    }
    target->session()->Settle(std::move(done));
  });
}

absl::Status SessionTargets::Drain(ProcessId id) {
  return Ask([this, id](const TargetSession::Done& done) {
    Target* target = recorder_->FindTarget(id);
    if (target == nullptr) {
      done(absl::OkStatus());
      return;
    }
    auto judge = [this, id, done](const absl::Status&) {
      Target* drained = recorder_->FindTarget(id);
      const bool believed = drained == nullptr || drained->not_believable().empty();
      done(believed ? absl::OkStatus()
                    : absl::DataLossError(absl::StrCat("its numbers are implausible: ",
                                                       drained->not_believable())));
    };
    // Usually one call is enough. A target with more is drained further together with
    // the others.
    const bool was_behind = target->behind();
    target->Drain(BootNs(), kDrainCost);
    if (was_behind || target->behind()) {
      target->session()->AfterDrain(judge);
    } else {
      judge(absl::OkStatus());
    }
  });
}

void SessionTargets::OnTargetReady(ProcessId target, TargetDescription description,
                                   bool waiting) {
  {
    absl::MutexLock lock(&mutex_);
    targets_[target] = std::move(description);
  }
  arrived_(target, waiting);
}

void SessionTargets::OnTargetGone(ProcessId target) {
  absl::MutexLock lock(&mutex_);
  targets_.erase(target);
}

}  // namespace rocattach
