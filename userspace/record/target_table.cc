#include "userspace/record/target_table.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/record/window_state.h"

namespace rocattach {
namespace {

// A hook may still be capturing for this long after recording was switched off.
constexpr uint64_t kQuiesceNs = 20'000'000;
// Pause between looks at the operations in flight then.
constexpr timespec kQuiesceStep = {0, 2'000'000};
// Time limit for draining all rings when the run ends.
constexpr uint64_t kLastDrainNs = 10'000'000'000;

}  // namespace

Target* TargetTable::Add(const ProcessId& process, std::unique_ptr<Target> target) {
  return (living_[process] = std::move(target)).get();
}

Target* TargetTable::FindLiving(const ProcessId& process) const {
  const auto found = living_.find(process);
  return found == living_.end() ? nullptr : found->second.get();
}

Target* TargetTable::FindWithMemory(const ProcessId& process) {
  Target* target = FindLiving(process);
  if (target != nullptr && target->has_memory()) return target;
  return ending_.Find(process);
}

void TargetTable::UpdateMeters() const {
  for (const auto& [process, target] : living_) target->UpdateMeter();
  ending_.ForEach([](Target* target) { target->UpdateMeter(); });
}

std::map<std::string, uint64_t> TargetTable::CountByState() const {
  std::map<std::string, uint64_t> counts;
  for (const Verdict verdict : {Verdict::kOpen, Verdict::kAttached, Verdict::kPassed,
                                Verdict::kRefused, Verdict::kMissed}) {
    counts[std::string(VerdictName(StateOf(verdict)))] = 0;
  }
  for (const auto& [process, target] : living_) {
    ++counts[std::string(VerdictName(StateOf(target->verdict())))];
  }
  uint64_t& ending = counts["ending"];
  ending_.ForEach([&ending](Target*) { ++ending; });
  return counts;
}

bool TargetTable::AllSettled() const {
  return std::none_of(living_.begin(), living_.end(), [](const auto& entry) {
    return entry.second->verdict() == Verdict::kOpen;
  });
}

std::shared_ptr<UserMemory> TargetTable::MemoryOfUser(uint32_t uid) {
  std::shared_ptr<UserMemory> user = user_memory_[uid].lock();
  if (user != nullptr) return user;
  absl::erase_if(user_memory_,
                 [](const auto& entry) { return entry.second.expired(); });
  user = std::make_shared<UserMemory>();
  user_memory_[uid] = user;
  return user;
}

void TargetTable::ShareOut() {
  shares_.Clear();
  for (const auto& [process, target] : living_) {
    if (target->behind()) shares_.Add(target->uid());
  }
  ending_.AddTo(&shares_);
}

uint64_t TargetTable::Drain(Target* target, uint64_t now_ns) const {
  return target->Drain(now_ns, shares_.Of(target->uid()));
}

void TargetTable::DrainEnding(uint64_t now_ns) {
  ending_.Drain(now_ns, shares_, close_);
}

void TargetTable::End(const ProcessId& process, const v1::ProcessEnd& end) {
  auto found = living_.extract(process);
  if (found.empty()) return;
  std::unique_ptr<Target> target = std::move(found.mapped());
  if (target->DrainLast(BootNs(), shares_.Of(target->uid()))) {
    close_(target.get(), end);
  } else {
    ending_.Add(std::move(target), end, close_);
  }
}

// The kernel's event, if any, precedes this: a pidfd becomes readable only after it.
// One call of grace lets the event, which another thread posts, arrive first.
std::vector<ProcessId> TargetTable::FindLost() {
  absl::flat_hash_set<ProcessId> gone;
  std::vector<ProcessId> lost;
  for (const auto& [process, target] : living_) {
    if (!target->IsGone()) continue;
    gone.insert(process);
    if (suspected_gone_.contains(process)) lost.push_back(process);
  }
  suspected_gone_ = std::move(gone);
  return lost;
}

void TargetTable::EndRecording() {
  for (const auto& [process, target] : living_) target->EndRecording();
}

void TargetTable::Quiesce(uint64_t timeout_ns) {
  if (living_.empty()) return;
  for (const auto& [process, target] : living_) target->SetRecording(false);
  const uint64_t begin_ns = BootNs();
  for (;;) {
    nanosleep(&kQuiesceStep, nullptr);
    const uint64_t now_ns = BootNs();
    bool has_open = false;
    ShareOut();
    for (const auto& [process, target] : living_) {
      Drain(target.get(), now_ns);
      has_open |= target->HasOpenOperations() && !target->IsGone();
    }
    const uint64_t elapsed_ns = now_ns - begin_ns;
    if (elapsed_ns >= kQuiesceNs && (!has_open || elapsed_ns >= timeout_ns)) return;
  }
}

void TargetTable::EndAll() {
  std::vector<std::pair<ProcessId, v1::ProcessEnd>> ends;
  for (const auto& [process, target] : living_) {
    // Processes with an open window are checked: the verdict says whether they run on.
    const bool is_gone = target->verdict() == Verdict::kOpen && target->IsGone();
    v1::ProcessEnd end;
    end.set_how(is_gone ? v1::ProcessEnd::LOST : v1::ProcessEnd::STILL_RUNNING);
    end.set_time_ns(BootNs());
    end.set_wall_ns(ElapsedNs(target->opened().event.start_ns, BootNs()));
    ends.emplace_back(process, std::move(end));
  }
  for (const auto& [process, end] : ends) End(process, end);
  const uint64_t give_up_ns = BootNs() + kLastDrainNs;
  while (!ending_.empty() && BootNs() < give_up_ns) {
    ShareOut();
    DrainEnding(BootNs());
  }
  ending_.CloseAll(close_);
}

}  // namespace rocattach
