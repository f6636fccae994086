// The display of `rocattach top`: rates between two samples of the service's totals.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_TOP_VIEW_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_TOP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/base/json.h"

namespace rocattach {

enum class TopSort { kTime, kDispatches, kCopies, kBytes, kPid, kName };

struct TopOptions {
  TopSort sort = TopSort::kTime;
  std::string filter;  // part of a name or workload, or a process ID; empty: all
  bool kernels = true;
  bool paused = false;
  size_t width = 80, height = 24;
};

struct TopKernel {
  std::string id, name;
  double busy = 0;  // kernel time per elapsed time; 1: one kernel at all times
  double dispatches_per_second = 0;
};

struct TopCounter {
  std::string gpu, name;
  double per_second = 0;
};

struct TopProcess {
  int64_t pid = 0;
  std::string name, workload;
  bool attached = true;  // false: only its memory is known
  bool ended = false;
  std::optional<uint64_t> vram_bytes;  // unset: not known
  double busy = 0, dispatches_per_second = 0, copies_per_second = 0,
         bytes_per_second = 0;
  uint64_t dispatches = 0, dropped = 0;  // totals
  std::vector<TopKernel> kernels;        // the busiest first
  std::vector<TopCounter> counters;
};

struct TopGpu {
  std::string gpu, architecture, counters;
  double busy = 0, dispatches_per_second = 0;
  std::optional<uint64_t> vram_bytes, vram_used_bytes;  // unset: not known
};

struct TopSample {
  double seconds = 0;  // time span of the sample
  uint64_t dropped = 0;
  double sampling_ratio = 1;  // the share of dispatches that is recorded
  std::vector<TopGpu> gpus;
  std::vector<TopProcess> processes;
};

// `before` and `now` are contents of the service's page /processes; an entry that is
// only in `now` counts from zero. An error if they are not such pages.
absl::StatusOr<TopSample> CompareSamples(const std::string& before,
                                         const std::string& now);

// Sorts and filters the processes.
void Arrange(const TopOptions& options, TopSample* sample);

// At most `height` lines of at most `width` columns, without line ends.
std::vector<std::string> TopLines(const TopSample& sample, const TopOptions& options);

Json TopJson(const TopSample& sample);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_TOP_VIEW_H_
