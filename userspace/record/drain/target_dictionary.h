// The dictionary of one process: agents, queues, kernels, code objects, API functions.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_DICTIONARY_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_DICTIONARY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "userspace/record/drain/agent_topology.h"
#include "userspace/record/drain/dictionary.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/sessions/target_session.h"

namespace rocattach {

// Memory of the service that the targets of one user occupy.
struct UserMemory {
  uint64_t dictionary_bytes = 0;
};

// Dictionaries are kept as long as their process: for key frames, and once more the
// names, for sessions. Beyond the first limit for a process, or the second for a user's
// processes, records are kept but names are lost.
inline constexpr uint64_t kMaxDictionaryBytes = 16 << 20;
inline constexpr uint64_t kMaxUserDictionaryBytes = 24 << 20;

// Writes entries to the stream and to the process's session, within the limits.
class TargetDictionary {
 public:
  // All must outlive it. `user` is shared by all targets of that user. `topology` may
  // be null.
  TargetDictionary(ProcessOutput output, OutputSet* output_set, TargetSession* session,
                   std::shared_ptr<UserMemory> user, AgentTopology* topology = nullptr);
  ~TargetDictionary();
  TargetDictionary(const TargetDictionary&) = delete;
  TargetDictionary& operator=(const TargetDictionary&) = delete;

  // Adds an entry as the collector wrote it, if it is valid and within the limits.
  void AddEntry(const std::vector<uint8_t>& bytes);

  // The largest ids so far: records with larger ones are invalid.
  uint32_t max_agent() const { return max_agent_; }
  uint32_t max_queue() const { return max_queue_; }
  uint32_t max_kernel() const { return max_kernel_; }
  uint64_t malformed() const { return malformed_; }  // entries that cannot be decoded
  uint64_t refused() const { return refused_; }      // entries beyond the limits

 private:
  // Counts an entry that is to be kept; false if a limit is reached.
  bool Keep(const DictionaryEntry& entry, uint64_t bytes);

  const ProcessOutput output_;
  OutputSet* const output_set_;
  TargetSession* const session_;
  const std::shared_ptr<UserMemory> user_;
  AgentTopology* const topology_;
  uint64_t bytes_ = 0;        // this process's part of the user's bytes
  uint64_t small_bytes_ = 0;  // of these, for agents, queues and functions
  uint64_t malformed_ = 0, refused_ = 0;
  uint32_t max_kernel_ = 0, max_queue_ = 0, max_agent_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_TARGET_DICTIONARY_H_
