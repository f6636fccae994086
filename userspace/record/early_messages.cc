#include "userspace/record/early_messages.h"

#include <utility>

namespace rocattach {

void EarlyMessages::Keep(const ProcessId& process, RecorderMessage message,
                         uint64_t now_ns) {
  if (processes_.size() >= kMostProcesses && !processes_.contains(process)) return;
  Waiting& waiting = processes_[process];
  if (waiting.messages.size() >= kMostPerProcess) return;
  if (waiting.messages.empty()) waiting.since_ns = now_ns;
  waiting.messages.push_back(std::move(message));
}

std::vector<RecorderMessage> EarlyMessages::Take(const ProcessId& process) {
  auto found = processes_.extract(process);
  if (found.empty()) return {};
  return std::move(found.mapped().messages);
}

void EarlyMessages::Expire(uint64_t now_ns) {
  absl::erase_if(processes_, [now_ns](const auto& entry) {
    return now_ns > entry.second.since_ns + kLifeNs;
  });
}

}  // namespace rocattach
