// One process in a Perfetto trace: the names and tracks that its events refer to, each
// announced before its first use, and again after a reset.
#ifndef ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PROCESS_H_
#define ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PROCESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "schemas/export/perfetto.pb.h"
#include "schemas/records.pb.h"
#include "userspace/export/common/export_process.h"
#include "userspace/export/common/launch_matcher.h"
#include "userspace/export/pftrace/pftrace_names.h"
#include "userspace/export/pftrace/pftrace_packets.h"

namespace rocattach {

// State that the processes of one machine share. Process ids and GPUs of two machines
// are different even if their numbers are the same.
struct PftraceMachine {
  uint32_t id = 0;
  uint32_t generation = 0;  // in which the fixed names were announced
  perfetto::GpuInfo gpus;
  std::map<std::string, uint32_t> gpu_numbers;  // by address
};

// State that the processes of one file share.
struct PftraceFile {
  explicit PftraceFile(std::string* out) : packets(out) {}

  // Begins a part of the file that can be read by itself.
  void Reset();
  // The machine on which a recording was made. Valid as long as this object.
  PftraceMachine* MachineOf(const v1::StreamHeader& header);
  // Selects the machine of the packets that follow, and the alignment of their times.
  void Select(PftraceMachine* machine, const Alignment& alignment);
  // The number of a GPU on its machine. Processes that use the same GPU share it.
  uint32_t Gpu(PftraceMachine* machine, const v1::Agent& agent);

  PftracePackets packets;
  uint32_t generation = 0;                         // resets so far
  uint64_t reset_at = 0;                           // event bytes at the last one
  uint32_t next_iid = kFirstFreeIid;               // for names of all kinds
  uint64_t next_event = 1;                         // for stage events
  std::map<std::string, PftraceMachine> machines;  // by host and boot
};

class PftraceProcess {
 public:
  // All must outlive this object. Its machine must be selected in the file now, and
  // whenever a name or track is requested.
  PftraceProcess(const ExportProcess& process, PftraceMachine* machine,
                 PftraceFile* file);

  PftraceMachine* machine() const { return machine_; }

  // Each returns the number to use. A kernel's number is also that of its name.
  uint32_t Kernel(uint32_t kernel_id);
  uint32_t Function(uint32_t domain, uint32_t function);
  uint32_t Queue(uint32_t queue_id);
  uint32_t CopyQueue(uint32_t direction);
  uint32_t CopyName(uint32_t direction);
  uint32_t Gpu(uint32_t agent_id);
  uint32_t Context();
  // Tracks. Calls of a thread that overlap without one being inside the other have a
  // `lane` > 0.
  uint64_t ProcessTrack();
  uint64_t ThreadTrack(uint32_t tid, uint32_t lane = 0);
  uint64_t MarkerTrack(uint32_t tid);
  uint64_t CounterTrack(uint32_t agent_id, absl::string_view counter, bool sampled);

  // Describes the process again if its workload was not known before.
  void AnnounceWorkload();

  LaunchMatcher* matcher() { return &matcher_; }
  // Number of ranges that a thread has pushed and not popped.
  uint32_t* open_ranges(uint32_t tid);

 private:
  enum TrackKind : uint64_t { kProcess = 1, kThread, kLane, kMarkers, kCounter };

  std::string NameForPeople() const;
  uint64_t Uuid(TrackKind kind, uint64_t a, uint64_t b) const;
  // Returns the uuid, and true if it must be announced.
  std::pair<uint64_t, bool> Track(TrackKind kind, uint64_t a, uint64_t b);
  void AnnounceProcess(uint64_t uuid);
  void Announce(perfetto::InternedData data);
  void Announce(perfetto::TrackDescriptor track);
  // The text is composed only when it is announced.
  template <typename Text>
  uint32_t QueueNamed(uint64_t key, Text text);
  template <typename Text>
  uint32_t Named(uint64_t key, Text text);

  const ExportProcess& process_;
  PftraceMachine* const machine_;
  PftraceFile* const file_;
  const uint64_t seed_;  // for uuids
  PftraceNames<uint32_t> kernels_, contexts_;
  PftraceNames<uint64_t> names_, queues_, tracks_;
  absl::flat_hash_map<uint32_t, uint32_t> gpus_;  // by agent
  absl::flat_hash_map<uint32_t, uint32_t> open_ranges_;
  LaunchMatcher matcher_;
  bool workload_due_ = true;  // true: not in the last description of the process
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PFTRACE_PFTRACE_PROCESS_H_
