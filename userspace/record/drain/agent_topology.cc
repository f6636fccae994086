#include "userspace/record/drain/agent_topology.h"

#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

// A node's file has about 40 lines of about 20 bytes; a process has few agents.
constexpr size_t kMaxFileBytes = 16 << 10;
constexpr uint32_t kMaxNodes = 4096;

void AddProperty(absl::string_view name, uint64_t value, v1::Agent* node) {
  v1::AgentProperty* property = node->add_properties();
  property->set_name(std::string(name));
  property->set_value(value);
}

std::optional<uint64_t> Property(const v1::Agent& node, absl::string_view name) {
  for (const v1::AgentProperty& property : node.properties()) {
    if (property.name() == name) return property.value();
  }
  return std::nullopt;
}

// The node's address, as in v1::Agent.pci_bdf. In amdkfd's kfd_topology.c, location_id
// is bus << 8 | device << 3 | function.
uint64_t PciAddress(const v1::Agent& node) {
  return Property(node, "domain").value_or(0) << 16 |
         (Property(node, "location_id").value_or(0) & 0xffff);
}

}  // namespace

const v1::Agent& AgentTopology::Read(uint32_t number) {
  auto [found, is_new] = nodes_.try_emplace(number);
  v1::Agent& node = found->second;
  if (!is_new) return node;
  const std::string path = absl::StrCat(directory_, "/nodes/", number, "/");
  if (auto text = ReadFile(path + "properties", kMaxFileBytes); text.ok()) {
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      uint64_t value = 0;
      if (absl::SimpleAtoi(pair.second, &value)) AddProperty(pair.first, value, &node);
    }
  }
  uint64_t gpu_id = 0;
  auto text = ReadFile(path + "gpu_id", kMaxFileBytes);
  if (text.ok() && absl::SimpleAtoi(*text, &gpu_id)) {
    AddProperty("gpu_id", gpu_id, &node);
  }
  if (auto name = ReadFile(path + "name", kMaxFileBytes); name.ok()) {
    node.set_model_name(std::string(absl::StripAsciiWhitespace(*name)));
  }
  return node;
}

void AgentTopology::Describe(v1::Agent* agent) {
  if (agent->node_id() >= kMaxNodes) return;
  const v1::Agent& node = Read(agent->node_id());
  if (node.properties_size() == 0) return;
  const bool is_gpu = agent->type() == v1::AGENT_TYPE_GPU;
  if (is_gpu != (Property(node, "simd_count").value_or(0) > 0)) return;
  if (is_gpu && agent->pci_bdf() != 0 && agent->pci_bdf() != PciAddress(node)) return;
  *agent->mutable_properties() = node.properties();
  agent->set_model_name(node.model_name());
}

}  // namespace rocattach
