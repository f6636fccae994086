// One process in a Perfetto trace: the names and tracks that its events refer to, each
// announced before its first use, and again after a reset.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PROCESS_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PROCESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "schemas/export/perfetto.pb.h"
#include "schemas/records.pb.h"
#include "userspace/export/export_process.h"
#include "userspace/export/launch_matcher.h"
#include "userspace/export/pftrace_names.h"
#include "userspace/export/pftrace_packets.h"

namespace rocattach {

// What the processes of one file share.
struct PftraceFile {
  explicit PftraceFile(std::string* out) : packets(out) {}

  // Begins a part of the file that can be read by itself.
  void Reset();
  // The number of a GPU in the file. Processes that use the same one share it.
  uint32_t Gpu(const ExportProcess& process, const v1::Agent& agent);

  PftracePackets packets;
  uint32_t generation = 0;            // resets so far
  uint32_t next_iid = kFirstFreeIid;  // of names of all kinds
  uint64_t next_event = 1;            // of stage events
  perfetto::GpuInfo gpus;
  std::map<std::string, uint32_t> gpu_numbers;  // by host and address
};

class PftraceProcess {
 public:
  // Both must outlive this.
  PftraceProcess(const ExportProcess& process, PftraceFile* file);

  // Each returns the number to use. A kernel's number is also that of its name.
  uint32_t Kernel(uint32_t kernel_id);
  uint32_t Function(uint32_t domain, uint32_t function);
  uint32_t Queue(uint32_t queue_id);
  uint32_t CopyQueue(uint32_t direction);
  uint32_t CopyName(uint32_t direction);
  uint32_t Gpu(uint32_t agent_id);
  uint32_t Context();
  // Tracks. A thread's calls that overlap without one being inside the other have
  // `lane` > 0.
  uint64_t ProcessTrack();
  uint64_t ThreadTrack(uint32_t tid, uint32_t lane = 0);
  uint64_t MarkerTrack(uint32_t tid);
  uint64_t CounterTrack(uint32_t agent_id, absl::string_view counter, bool sampled);

  LaunchMatcher* matcher() { return &matcher_; }
  // Ranges that a thread has pushed and not popped.
  uint32_t* open_ranges(uint32_t tid);

 private:
  enum TrackKind : uint64_t { kProcess = 1, kThread, kLane, kMarkers, kCounter };

  std::string NameForPeople() const;
  uint64_t Uuid(TrackKind kind, uint64_t a, uint64_t b) const;
  // The uuid, and whether to announce it.
  std::pair<uint64_t, bool> Track(TrackKind kind, uint64_t a, uint64_t b);
  void Announce(perfetto::InternedData data);
  void Announce(perfetto::TrackDescriptor track);
  // The text is composed only when it is announced.
  template <typename Text>
  uint32_t QueueNamed(uint64_t key, Text text);
  template <typename Text>
  uint32_t Named(uint64_t key, Text text);

  const ExportProcess& process_;
  PftraceFile* const file_;
  const uint64_t seed_;  // of uuids
  PftraceNames<uint32_t> kernels_, contexts_;
  PftraceNames<uint64_t> names_, queues_, tracks_;
  absl::flat_hash_map<uint32_t, uint32_t> gpus_;  // by agent
  absl::flat_hash_map<uint32_t, uint32_t> open_ranges_;
  LaunchMatcher matcher_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PROCESS_H_
