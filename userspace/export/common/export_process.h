// A process of a recording as exports see it: its identity, and the names for the
// numbers in its records.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_PROCESS_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/base/demangler.h"

namespace rocattach {

// A kernel and its human-readable name.
struct ExportKernel {
  v1::Kernel kernel;
  std::string display_name;  // demangled
};

// Positions of an agent among its process's agents, from 0, as rocprofv3 counts them.
struct AgentPlace {
  uint32_t absolute = 0;       // node of the kernel driver's topology
  uint32_t relative = 0;       // among the process's agents, by node
  uint32_t type_relative = 0;  // among those of its type, by node
  v1::AgentType type = v1::AGENT_TYPE_UNKNOWN;
};

class ExportProcess {
 public:
  // Memory limit for the names of one process; further ones are left out and counted.
  static constexpr size_t kMaxBytes = 64 << 20;
  // Limited because each new agent may change the numbers of all others.
  static constexpr size_t kMaxAgents = 1024;

  // `number`: position among the processes of all inputs, from 1.
  explicit ExportProcess(uint32_t number) : number_(number) {}

  uint32_t number() const { return number_; }
  // Header of the recording that contains the process; empty if the header is missing.
  const v1::StreamHeader& header() const { return *header_; }
  // Empty if the process's key frame is missing.
  const v1::Process& process() const { return process_; }
  uint32_t pid() const { return process_.pid(); }
  // Position in the inputs: the recording, counted over all inputs, and its stream.
  uint32_t recording() const { return recording_; }
  uint32_t stream() const { return stream_; }

  const std::map<uint32_t, v1::Agent>& agents() const { return agents_; }
  const std::map<uint32_t, v1::Queue>& queues() const { return queues_; }
  const std::map<uint32_t, v1::CodeObject>& code_objects() const {
    return code_objects_;
  }
  const std::map<uint32_t, v1::SessionPlan>& plans() const { return plans_; }
  const std::map<std::pair<uint32_t, uint32_t>, std::string>& functions() const {
    return functions_;  // by domain and function
  }
  const std::map<uint32_t, ExportKernel>& kernels() const { return kernels_; }
  const std::optional<v1::ProcessEnd>& end() const { return end_; }
  // Outcome of the attach, and losses, as far as they are known so far.
  const std::optional<v1::WindowEvent>& window() const { return window_; }
  const std::optional<v1::LossAccount>& account() const { return account_; }

  // Null if it is not known.
  const ExportKernel* FindKernel(uint32_t id) const;
  const v1::Agent* FindAgent(uint32_t id) const;
  // The agent to which a copy's unowned host memory is attributed; null without a CPU.
  const v1::Agent* FirstCpu() const { return first_cpu_; }
  // All 0 if it is not known.
  AgentPlace PlaceOf(uint32_t agent_id) const;
  // Empty if it is not known.
  absl::string_view ThreadName(uint32_t tid) const;
  absl::string_view FunctionName(uint32_t domain, uint32_t function) const;
  absl::string_view CounterName(uint32_t plan, uint32_t counter) const;

  // Number of entries that found no room.
  uint64_t entries_omitted() const { return entries_omitted_; }

  // Converts a time of the recording to nanoseconds since 1970; 0 if it is not known.
  uint64_t RealtimeNs(uint64_t boottime_ns) const;

 private:
  friend class Exporter;

  // Each returns true if it added the entry; a known entry is left unchanged.
  bool Add(const v1::Agent& agent);
  bool Add(const v1::Queue& queue);
  bool Add(const v1::Kernel& kernel);
  bool Add(const v1::CodeObject& object);
  bool Add(const v1::SessionPlan& plan);
  bool Add(const v1::ApiFunction& function);
  // The first name of a thread is kept.
  bool Add(const v1::Thread& thread);
  // Reserves room for an entry; false if there is none.
  bool Room(const google::protobuf::Message& entry);
  // Numbers the agents in the order of their nodes.
  void PlaceAgents();

  const uint32_t number_;
  uint32_t recording_ = 0, stream_ = 0;
  std::shared_ptr<const v1::StreamHeader> header_ =
      std::make_shared<v1::StreamHeader>();
  v1::Process process_;
  std::map<uint32_t, v1::Agent> agents_;
  std::map<uint32_t, AgentPlace> places_;
  const v1::Agent* first_cpu_ = nullptr;
  std::map<uint32_t, v1::Queue> queues_;
  std::map<uint32_t, std::string> threads_;
  std::map<uint32_t, v1::CodeObject> code_objects_;
  std::map<uint32_t, v1::SessionPlan> plans_;
  std::map<std::pair<uint32_t, uint32_t>, std::string> functions_;
  std::map<uint32_t, ExportKernel> kernels_;
  std::optional<v1::ProcessEnd> end_;
  std::optional<v1::WindowEvent> window_;
  std::optional<v1::LossAccount> account_;
  Demangler demangler_{Demangler::WithoutCache()};
  size_t bytes_ = 0;
  uint64_t entries_omitted_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_EXPORT_PROCESS_H_
