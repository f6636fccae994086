// Which Slurm jobs have which GPUs, as prologs of other monitoring programs write it.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_JOB_MAPPINGS_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_JOB_MAPPINGS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {

// What one file says of its GPU.
struct JobMapping {
  std::set<std::string> jobs;
  std::string user;  // whose jobs they are; empty: it does not say
};

// Reads the text of the file of GPU `index`. The exporter of AMD writes a JSON object
// with SLURM_JOB_ID, SLURM_JOB_USER and SLURM_JOB_GPUS, dcgm-exporter's convention is
// one job a line. INVALID_ARGUMENT if it is neither, or names other GPUs.
absl::StatusOr<JobMapping> ParseJobMapping(absl::string_view text, uint32_t index);

struct JobMappingFailures {
  uint64_t unreadable = 0;  // the folder, or files, in rounds
  uint64_t malformed = 0;   // files in rounds
  uint64_t crowded = 0;     // rounds in which there was more than is read
};

// Thread-safe; only Refresh() reads files and looks up users.
class JobMappings {
 public:
  static constexpr size_t kMostFiles = 256;
  static constexpr size_t kMostFileBytes = 64 << 10;

  enum class Answer { kFound, kUnknown, kAmbiguous };

  // `folder` has one file for each GPU that has a job, named by its index.
  explicit JobMappings(std::string folder) : folder_(std::move(folder)) {}

  // An error if the folder cannot be read: then nothing is known any more.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  // The one job that has all of these GPUs, if they have one in common. kUnknown if a
  // GPU has none, or the last Refresh() began before `since_ns` (CLOCK_BOOTTIME).
  // kAmbiguous if there are several, or they belong to another user than `uid`.
  Answer Find(const std::vector<uint32_t>& gpus, uid_t uid, uint64_t since_ns,
              std::string* job) const ABSL_LOCKS_EXCLUDED(mutex_);
  JobMappingFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Gpu {
    std::set<std::string> jobs;
    bool has_user = false;     // it says whose they are,
    std::optional<uid_t> uid;  // who is this one; unset: nobody on this machine
  };

  const std::string folder_;
  mutable absl::Mutex mutex_;
  std::map<uint32_t, Gpu> gpus_ ABSL_GUARDED_BY(mutex_);  // by index
  uint64_t read_ns_ ABSL_GUARDED_BY(mutex_) = 0;          // when the last one began
  JobMappingFailures failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_JOB_MAPPINGS_H_
