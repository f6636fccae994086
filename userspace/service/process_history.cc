#include "userspace/service/process_history.h"

#include <utility>

#include "userspace/record/drain/dictionary.h"
#include "userspace/service/workload_tracking.h"

namespace rocattach {
namespace {

// Memory of the nodes of the map and the list.
constexpr size_t kNodeBytes = 128;

// Shortens a long text; the bytes of a UTF-8 character that is cut become '?'.
void Cut(std::string* text) {
  if (text->size() <= ProcessHistory::kMostTextBytes) return;
  *text = CleanText(text->substr(0, ProcessHistory::kMostTextBytes - 3)) + "...";
  text->shrink_to_fit();
}

ProcessId IdOf(const v1::Process& process) {
  return {static_cast<pid_t>(process.pid()), process.start_ticks()};
}

// Copies a process without its arguments, which may hold secrets; shortens long names.
void Keep(const v1::Process& from, v1::Process* to) {
  *to = from;
  to->clear_arguments();
  to->clear_arguments_cut();
  Cut(to->mutable_comm());
  Cut(to->mutable_executable());
  Cut(to->mutable_cgroup());
  Cut(to->mutable_hsa_library());
}

void Keep(const v1::WindowEvent& from, v1::WindowEvent* to) {
  *to = from;
  Cut(to->mutable_detail());
  if (!to->has_collector()) return;
  v1::Collector* collector = to->mutable_collector();
  Cut(collector->mutable_refusal());
  Cut(collector->mutable_backend_reason());
  Cut(collector->mutable_entry_reason());
  Cut(collector->mutable_other_tool());
}

bool IsAttachedTo(const v1::ProcessLife& life) {
  const auto& verdicts = life.verdicts();
  return !life.has_end() && !verdicts.empty() &&
         verdicts.rbegin()->state() == v1::WINDOW_STATE_ATTACHED;
}

}  // namespace

ProcessHistory::Entry* ProcessHistory::Touch(const ProcessId& process) {
  auto [found, is_new] = lives_.try_emplace(process);
  Entry* entry = &found->second;
  if (is_new) {
    ++seen_;
    entry->place = others_.insert(others_.end(), process);
    v1::Process* about = entry->life.mutable_process();
    about->set_pid(static_cast<uint32_t>(process.pid));
    about->set_start_ticks(process.start_ticks);
  }
  return entry;
}

void ProcessHistory::Settle(Entry* entry) {
  const size_t now = entry->life.SpaceUsedLong() + kNodeBytes;
  bytes_ = bytes_ - entry->bytes + now;
  entry->bytes = now;
  if (const bool attached = IsAttachedTo(entry->life); attached != entry->is_attached) {
    entry->is_attached = attached;
    std::list<ProcessId>& from = attached ? others_ : attached_;
    std::list<ProcessId>& to = attached ? attached_ : others_;
    to.splice(to.end(), from, entry->place);
  }
  while (lives_.size() > limits_.processes || bytes_ > limits_.bytes) ForgetOne();
}

void ProcessHistory::ForgetOne() {
  std::list<ProcessId>& oldest = others_.empty() ? attached_ : others_;
  const auto found = lives_.find(oldest.front());
  bytes_ -= found->second.bytes;
  lives_.erase(found);
  oldest.pop_front();
  ++forgotten_;
}

void ProcessHistory::OnVerdict(const v1::Process& process,
                               const v1::WindowEvent& verdict) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(IdOf(process));
  Keep(process, entry->life.mutable_process());
  auto* verdicts = entry->life.mutable_verdicts();
  if (verdicts->size() >= kMostVerdicts) {
    verdicts->DeleteSubrange(0, 1);
    entry->life.set_verdicts_forgotten(entry->life.verdicts_forgotten() + 1);
  }
  Keep(verdict, verdicts->Add());
  Settle(entry);
}

void ProcessHistory::OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
                           const v1::LossAccount&) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(IdOf(process));
  Keep(process, entry->life.mutable_process());
  *entry->life.mutable_end() = end;
  Settle(entry);
}

void ProcessHistory::OnNotAttached(const ProcessId& process, absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(process);
  *entry->life.mutable_not_attached() = CleanText(why);
  Cut(entry->life.mutable_not_attached());
  Settle(entry);
}

void ProcessHistory::OnMissedWindow(const ProcessId& process,
                                    absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(process);
  entry->life.set_missed_window(std::string(reason));
  Settle(entry);
}

void ProcessHistory::SetWorkload(const ProcessId& process,
                                 const WorkloadIdentity& workload) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(process);
  *entry->life.mutable_workload() = WorkloadToProto(workload);
  v1::Process* process_of = entry->life.mutable_process();
  if (process_of->executable().empty()) {
    process_of->set_executable(CleanText(workload.executable));
    Cut(process_of->mutable_executable());
  }
  Settle(entry);
}

v1::GetHistoryResponse ProcessHistory::Find(pid_t pid) const {
  v1::GetHistoryResponse found;
  absl::MutexLock lock(&mutex_);
  for (auto it = lives_.lower_bound({pid, 0});
       it != lives_.end() && it->first.pid == pid; ++it) {
    *found.add_lives() = it->second.life;
  }
  found.set_seen(seen_);
  found.set_forgotten(forgotten_);
  return found;
}

size_t ProcessHistory::processes() const {
  absl::MutexLock lock(&mutex_);
  return lives_.size();
}

size_t ProcessHistory::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace rocattach
