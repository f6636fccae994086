#include "userspace/service/process_history.h"

#include <utility>

#include "userspace/record/dictionary.h"
#include "userspace/service/workload_message.h"

namespace rocattach {
namespace {

// Of the map's and the list's nodes.
constexpr size_t kNodeBytes = 128;

// Bytes of a UTF-8 character that is cut become '?'.
void Cut(std::string* text) {
  if (text->size() <= ProcessHistory::kMostTextBytes) return;
  *text = CleanText(text->substr(0, ProcessHistory::kMostTextBytes - 3)) + "...";
  text->shrink_to_fit();
}

ProcessId IdOf(const v1::Process& process) {
  return {static_cast<pid_t>(process.pid()), process.start_ticks()};
}

// What a process is called may be long, and its arguments may hold secrets.
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

}  // namespace

ProcessHistory::Entry* ProcessHistory::Touch(const ProcessId& process) {
  auto [found, is_new] = lives_.try_emplace(process);
  Entry* entry = &found->second;
  if (is_new) {
    ++seen_;
    entry->place = order_.insert(order_.end(), process);
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
  while (order_.size() > limits_.processes || bytes_ > limits_.bytes) {
    const auto oldest = lives_.find(order_.front());
    bytes_ -= oldest->second.bytes;
    lives_.erase(oldest);
    order_.pop_front();
    ++forgotten_;
  }
}

void ProcessHistory::NoteVerdict(const v1::Process& process,
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

void ProcessHistory::NoteEnd(const v1::Process& process, const v1::ProcessEnd& end) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(IdOf(process));
  Keep(process, entry->life.mutable_process());
  *entry->life.mutable_end() = end;
  Settle(entry);
}

void ProcessHistory::NoteNotAttached(const ProcessId& process, absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(process);
  *entry->life.mutable_not_attached() = CleanText(why);
  Cut(entry->life.mutable_not_attached());
  Settle(entry);
}

void ProcessHistory::NoteMissedWindow(const ProcessId& process,
                                      absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  Entry* entry = Touch(process);
  entry->life.set_missed_window(std::string(reason));
  Settle(entry);
}

void ProcessHistory::NoteWorkload(const ProcessId& process,
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
