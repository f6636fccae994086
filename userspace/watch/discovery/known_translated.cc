#include "userspace/watch/discovery/known_translated.h"

namespace rocattach {

bool KnownTranslated::Add(const ProcessId& process, uid_t uid) {
  if (const auto found = processes_.find(process.pid); found != processes_.end()) {
    if (found->second.start_ticks == process.start_ticks) return true;
    Remove(process.pid);
  }
  ++last_;
  processes_[process.pid] = {process.start_ticks, uid, last_, {}};
  std::map<uint64_t, pid_t>& of_user = by_age_[uid];
  of_user[last_] = process.pid;
  return of_user.size() <= kMostPerUser;
}

std::vector<ProcessId> KnownTranslated::Of(uid_t uid) const {
  std::vector<ProcessId> all;
  const auto of_user = by_age_.find(uid);
  if (of_user == by_age_.end()) return all;
  for (const auto& [number, pid] : of_user->second) {
    all.push_back({pid, processes_.at(pid).start_ticks});
  }
  return all;
}

void KnownTranslated::Trim(uid_t uid, const std::vector<ProcessId>& ended) {
  for (const ProcessId& process : ended) {
    const auto found = processes_.find(process.pid);
    if (found != processes_.end() && found->second.start_ticks == process.start_ticks) {
      Remove(process.pid);
    }
  }
  for (auto of_user = by_age_.find(uid);
       of_user != by_age_.end() && of_user->second.size() > kMostPerUser;) {
    Remove(of_user->second.begin()->second);
  }
}

bool KnownTranslated::Report(const ProcessId& process, uint64_t cookie) {
  const auto found = processes_.find(process.pid);
  return found != processes_.end() &&
         found->second.start_ticks == process.start_ticks &&
         found->second.reported.insert(cookie).second;
}

std::vector<std::pair<pid_t, uid_t>> KnownTranslated::All() const {
  std::vector<std::pair<pid_t, uid_t>> all;
  for (const auto& [pid, process] : processes_) all.push_back({pid, process.uid});
  return all;
}

void KnownTranslated::Remove(pid_t pid) {
  const auto found = processes_.find(pid);
  const auto of_user = by_age_.find(found->second.uid);
  of_user->second.erase(found->second.number);
  if (of_user->second.empty()) by_age_.erase(of_user);
  processes_.erase(found);
}

}  // namespace rocattach
