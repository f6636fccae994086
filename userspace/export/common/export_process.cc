#include "userspace/export/common/export_process.h"

#include <algorithm>

namespace rocattach {
namespace {

// Memory that an entry takes besides its texts.
constexpr size_t kEntryBytes = 256;

template <typename Map, typename Key>
const typename Map::mapped_type* Find(const Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

}  // namespace

const ExportKernel* ExportProcess::FindKernel(uint32_t id) const {
  return Find(kernels_, id);
}

const v1::Agent* ExportProcess::FindAgent(uint32_t id) const {
  return Find(agents_, id);
}

AgentPlace ExportProcess::PlaceOf(uint32_t agent_id) const {
  const AgentPlace* place = Find(places_, agent_id);
  return place == nullptr ? AgentPlace() : *place;
}

absl::string_view ExportProcess::FunctionName(uint32_t domain,
                                              uint32_t function) const {
  const std::string* name = Find(functions_, std::make_pair(domain, function));
  return name == nullptr ? absl::string_view() : *name;
}

absl::string_view ExportProcess::CounterName(uint32_t plan, uint32_t counter) const {
  const v1::SessionPlan* found = Find(plans_, plan);
  if (found == nullptr || counter >= static_cast<uint32_t>(found->counters_size())) {
    return "";
  }
  return found->counters(static_cast<int>(counter));
}

uint64_t ExportProcess::RealtimeNs(uint64_t boottime_ns) const {
  const v1::ClockSnapshot& clock = header_->clock();
  if (clock.realtime_ns() == 0 || boottime_ns == 0) return 0;
  return clock.realtime_ns() - clock.boottime_ns() + boottime_ns;
}

bool ExportProcess::Room(const google::protobuf::Message& entry) {
  const size_t bytes = entry.ByteSizeLong() + kEntryBytes;
  if (bytes_ + bytes > kMaxBytes) {
    ++entries_omitted_;
    return false;
  }
  bytes_ += bytes;
  return true;
}

bool ExportProcess::Add(const v1::Agent& agent) {
  if (agents_.contains(agent.id())) return false;
  if (agents_.size() >= kMaxAgents) {
    ++entries_omitted_;
    return false;
  }
  if (!Room(agent)) return false;
  agents_.emplace(agent.id(), agent);
  PlaceAgents();
  return true;
}

void ExportProcess::PlaceAgents() {
  std::vector<const v1::Agent*> by_node;
  for (const auto& [id, agent] : agents_) by_node.push_back(&agent);
  std::stable_sort(by_node.begin(), by_node.end(), [](const auto* a, const auto* b) {
    return a->node_id() < b->node_id();
  });
  std::map<v1::AgentType, uint32_t> of_type;
  uint32_t position = 0;
  first_cpu_ = nullptr;
  for (const v1::Agent* agent : by_node) {
    if (first_cpu_ == nullptr && agent->type() == v1::AGENT_TYPE_CPU) {
      first_cpu_ = agent;
    }
    places_[agent->id()] = {agent->node_id(), position++, of_type[agent->type()]++,
                            agent->type()};
  }
}

bool ExportProcess::Add(const v1::Queue& queue) {
  if (queues_.contains(queue.id()) || !Room(queue)) return false;
  queues_.emplace(queue.id(), queue);
  return true;
}

bool ExportProcess::Add(const v1::Kernel& kernel) {
  if (kernels_.contains(kernel.id()) || !Room(kernel)) return false;
  ExportKernel& added = kernels_[kernel.id()];
  added.kernel = kernel;
  added.display_name = demangler_.Demangle(kernel.name());
  bytes_ += added.display_name.size();
  return true;
}

bool ExportProcess::Add(const v1::CodeObject& object) {
  if (code_objects_.contains(object.id()) || !Room(object)) return false;
  code_objects_.emplace(object.id(), object);
  return true;
}

bool ExportProcess::Add(const v1::SessionPlan& plan) {
  if (plans_.contains(plan.id()) || !Room(plan)) return false;
  plans_.emplace(plan.id(), plan);
  return true;
}

bool ExportProcess::Add(const v1::Thread& thread) {
  if (threads_.contains(thread.tid()) || !Room(thread)) return false;
  threads_[thread.tid()] = thread.name();
  return true;
}

absl::string_view ExportProcess::ThreadName(uint32_t tid) const {
  const auto known = threads_.find(tid);
  return known == threads_.end() ? absl::string_view() : known->second;
}

bool ExportProcess::Add(const v1::ApiFunction& function) {
  const auto key =
      std::make_pair(static_cast<uint32_t>(function.domain()), function.function());
  if (functions_.contains(key) || !Room(function)) return false;
  functions_.emplace(key, function.name());
  return true;
}

}  // namespace rocattach
