#include "userspace/record/drain/target_dictionary.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace rocattach {
namespace {

// Limits for agents, queues and functions: the maximum of a process, and the part that
// it may always have, whatever its user's other processes have.
constexpr uint64_t kMaxSmallBytes = 1 << 20;
constexpr uint64_t kMinSmallBytes = 128 << 10;
// Memory of an entry in addition to its own bytes.
constexpr uint64_t kEntryOverhead = 48;

}  // namespace

TargetDictionary::TargetDictionary(ProcessOutput output, OutputSet* output_set,
                                   TargetSession* session,
                                   std::shared_ptr<UserMemory> user,
                                   AgentTopology* topology)
    : output_(output),
      output_set_(output_set),
      session_(session),
      user_(std::move(user)),
      topology_(topology) {}

TargetDictionary::~TargetDictionary() {
  user_->dictionary_bytes -= bytes_;
}

bool TargetDictionary::Keep(const DictionaryEntry& entry, uint64_t bytes) {
  uint64_t cost = bytes + kEntryOverhead;
  const bool is_kernel = std::holds_alternative<v1::Kernel>(entry);
  const bool is_small = !is_kernel && !std::holds_alternative<v1::CodeObject>(entry);
  if (is_kernel) cost += bytes;  // its name, for sessions
  const bool user_full = user_->dictionary_bytes + cost > kMaxUserDictionaryBytes;
  if (is_small) {
    // These are few, and their information is nowhere else.
    if (small_bytes_ + cost > (user_full ? kMinSmallBytes : kMaxSmallBytes)) {
      return false;
    }
    small_bytes_ += cost;
  } else if (user_full || bytes_ - small_bytes_ + cost > kMaxDictionaryBytes) {
    return false;
  }
  bytes_ += cost;
  user_->dictionary_bytes += cost;
  return true;
}

void TargetDictionary::AddEntry(const std::vector<uint8_t>& bytes) {
  auto entry = DecodeEntry(bytes);
  if (!entry.ok()) {
    ++malformed_;
    return;
  }
  if (auto* agent = std::get_if<v1::Agent>(&*entry); agent && topology_ != nullptr) {
    topology_->Describe(agent);
  }
  size_t kept_bytes = bytes.size();
  // Dispatches are accepted even if their queue has no description.
  if (const auto* agent = std::get_if<v1::Agent>(&*entry)) {
    max_agent_ = std::max(max_agent_, agent->id());
    kept_bytes = std::max(kept_bytes, agent->ByteSizeLong());  // with its topology
  } else if (const auto* queue = std::get_if<v1::Queue>(&*entry)) {
    max_queue_ = std::max(max_queue_, queue->id());
  }
  if (!Keep(*entry, kept_bytes)) {
    ++refused_;
    return;
  }
  std::visit(
      [this](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        StreamWriter* writer = output_.writer;
        if constexpr (std::is_same_v<T, v1::Agent>) {
          session_->AddAgent(message);
          output_set_->KeepError(writer->AddAgent(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::Queue>) {
          output_set_->KeepError(writer->AddQueue(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::Kernel>) {
          max_kernel_ = std::max(max_kernel_, message.id());
          session_->AddKernel(message);
          output_set_->KeepError(writer->AddKernel(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::ApiFunction>) {
          session_->AddFunction(message);
        } else {
          output_set_->KeepError(writer->AddCodeObject(output_.stream, message));
        }
      },
      *entry);
}

}  // namespace rocattach
