// Slurm jobs by GPU, from files that prologs of other monitoring programs write.
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

// Contents of the file of one GPU.
struct JobMapping {
  std::set<std::string> jobs;
  std::string user;  // the jobs' user; empty: the file does not name one
};

// Reads the text of the file of GPU `index`. AMD's exporter writes a JSON object with
// SLURM_JOB_ID, SLURM_JOB_USER and SLURM_JOB_GPUS; dcgm-exporter's convention is one
// job per line. INVALID_ARGUMENT if the text is neither, or names other GPUs.
absl::StatusOr<JobMapping> ParseJobMapping(absl::string_view text, uint32_t index);

struct JobMappingFailures {
  uint64_t unreadable = 0;  // the folder, or files, summed over rounds
  uint64_t malformed = 0;   // files, summed over rounds
  uint64_t crowded = 0;     // rounds with more files than are read
};

// Thread-safe; only Refresh() reads files and looks up users.
class JobMappings {
 public:
  static constexpr size_t kMostFiles = 256;
  static constexpr size_t kMostFileBytes = 64 << 10;

  enum class Answer { kFound, kUnknown, kAmbiguous };

  // `folder` has one file for each GPU that has a job, named by the GPU's index.
  explicit JobMappings(std::string folder) : folder_(std::move(folder)) {}

  // An error if the folder or a file is unusable. Without the folder no job is known.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  // Finds the one job that has all of these GPUs. kUnknown if a GPU has no job, or the
  // last Refresh() began before `since_ns` (CLOCK_BOOTTIME). kAmbiguous if the GPUs do
  // not have exactly one job in common, or the jobs belong to another user than `uid`.
  Answer Find(const std::vector<uint32_t>& gpus, uid_t uid, uint64_t since_ns,
              std::string* job) const ABSL_LOCKS_EXCLUDED(mutex_);
  JobMappingFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Gpu {
    std::set<std::string> jobs;
    bool has_user = false;     // the file names the jobs' user
    std::optional<uid_t> uid;  // the user's ID; unset: no such user here
  };

  const std::string folder_;
  mutable absl::Mutex mutex_;
  std::map<uint32_t, Gpu> gpus_ ABSL_GUARDED_BY(mutex_);  // by index
  uint64_t read_ns_ ABSL_GUARDED_BY(mutex_) = 0;          // start of the last Refresh()
  JobMappingFailures failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_JOB_MAPPINGS_H_
