// Adds up the operations of processes by path. Memory grows with the number of distinct
// paths, up to a limit, and not with the number of operations.
#ifndef ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_TOTALS_H_
#define ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_TOTALS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/export_sink.h"
#include "userspace/export/profile/profile_data.h"

namespace rocattach {

// The container id in a cgroup's path ("/docker/0123…",
// "…/cri-containerd-0123….scope"); empty if there is none.
absl::string_view ContainerId(absl::string_view cgroup);

class ProfileTotals {
 public:
  // Maximum number of distinct paths, over all processes. The operations of a process
  // beyond them share one more path.
  static constexpr size_t kMaxPaths = 1 << 20;
  static constexpr size_t kMaxCounters = 1024;

  explicit ProfileTotals(size_t max_paths = kMaxPaths) : max_paths_(max_paths) {}

  void Add(const ExportProcess& process, absl::Span<const rocattach_dispatch> records);
  void Add(const ExportProcess& process, absl::Span<const rocattach_copy> records);
  void Add(const ExportProcess& process, const CountedDispatch& counted);
  // Resolves the names of the process; nothing may be added to it after that.
  void End(const ExportProcess& process);

  // The profile of all processes that have ended.
  const ProfileData& data() const { return data_; }

 private:
  struct Path {
    bool copy = false;
    bool others = false;  // true: everything without a path of its own
    uint32_t agent_id = 0;
    uint32_t queue_id = 0;   // or a copy's direction
    uint32_t kernel_id = 0;  // 0 for copies
    auto operator<=>(const Path&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Path& p) {
      return H::combine(std::move(h), p.copy, p.others, p.agent_id, p.queue_id,
                        p.kernel_id);
    }
  };
  struct Totals {
    uint64_t kernel_time_ns = 0, dispatches = 0, copied_bytes = 0;
    std::map<uint32_t, double> counters;
    void Add(const Totals& other);
  };
  struct Process {
    absl::flat_hash_map<Path, Totals> paths;
    // (plan, counter) -> position in data_.counters.
    absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> counters;
    uint64_t begin_ns = 0, end_ns = 0;
  };

  Process* Of(const ExportProcess& process);
  Totals* TotalsOf(Process* process, const Path& path);
  uint32_t CounterOf(Process* process, absl::string_view name,
                     const CounterRecord& value);
  // The stack that users see; two paths may have the same one.
  std::vector<uint32_t> FramesOf(const ExportProcess& process, const Path& path,
                                 int gpu);
  void AddSample(std::vector<uint32_t> frames, int gpu, const Totals& totals);
  uint32_t Frame(std::string name, std::string system_name = "");

  const size_t max_paths_;
  size_t paths_ = 0;
  absl::flat_hash_map<const ExportProcess*, std::unique_ptr<Process>> open_;
  absl::flat_hash_map<std::pair<std::string, std::string>, uint32_t> frames_;
  absl::flat_hash_map<std::string, uint32_t> counters_;
  ProfileData data_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_TOTALS_H_
