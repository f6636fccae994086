#include "userspace/record/drain/agent_topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/temporary_directory.h"

namespace rocattach {
namespace {

class AgentTopologyTest : public testing::Test {
 protected:
  void Node(uint32_t number, const std::string& properties, const std::string& name,
            const std::string& gpu_id) {
    const std::filesystem::path node =
        std::filesystem::path(directory_.path()) / "nodes" / std::to_string(number);
    std::filesystem::create_directories(node);
    std::ofstream(node / "properties") << properties;
    std::ofstream(node / "name") << name << "\n";
    std::ofstream(node / "gpu_id") << gpu_id << "\n";
  }
  v1::Agent Described(uint32_t node, v1::AgentType type, uint64_t pci_bdf = 0) {
    v1::Agent agent;
    agent.set_id(7);
    agent.set_node_id(node);
    agent.set_type(type);
    agent.set_pci_bdf(pci_bdf);
    topology_.Describe(&agent);
    return agent;
  }
  static std::map<std::string, uint64_t> Properties(const v1::Agent& agent) {
    std::map<std::string, uint64_t> properties;
    for (const auto& property : agent.properties()) {
      properties[property.name()] = property.value();
    }
    return properties;
  }

  const testing_support::TemporaryDirectory directory_;
  AgentTopology topology_{directory_.path()};
};

TEST_F(AgentTopologyTest, AGpuHasTheDriversPropertiesAndModel) {
  Node(1, "simd_count 416\nlocation_id 12800\ndomain 2\nhive_id 18446744073709551615\n",
       "aldebaran", "50000");
  const v1::Agent agent =
      Described(1, v1::AGENT_TYPE_GPU, uint64_t{2} << 16 | 0x32 << 8);
  EXPECT_EQ(agent.id(), 7u);
  EXPECT_EQ(agent.model_name(), "aldebaran");
  const std::map<std::string, uint64_t> want = {{"simd_count", 416},
                                                {"location_id", 12800},
                                                {"domain", 2},
                                                {"hive_id", ~uint64_t{0}},
                                                {"gpu_id", 50000}};
  EXPECT_EQ(Properties(agent), want);
  EXPECT_EQ(agent.properties(0).name(), "simd_count");
}

TEST_F(AgentTopologyTest, AProcessorIsANodeWithoutSimds) {
  Node(0, "cpu_cores_count 64\nsimd_count 0\n", "", "0");
  EXPECT_EQ(Properties(Described(0, v1::AGENT_TYPE_CPU)).at("cpu_cores_count"), 64u);
  EXPECT_EQ(Described(0, v1::AGENT_TYPE_GPU).properties_size(), 0);
}

// The runtime in a container, or a simulated one, may number nodes in another way.
TEST_F(AgentTopologyTest, AnotherDeviceIsLeftAsItIs) {
  Node(1, "simd_count 416\nlocation_id 12800\n", "aldebaran", "1");
  const v1::Agent agent = Described(1, v1::AGENT_TYPE_GPU, 0x33 << 8);
  EXPECT_EQ(agent.properties_size(), 0);
  EXPECT_EQ(agent.model_name(), "");
}

TEST_F(AgentTopologyTest, ANodeThatCannotBeReadIsLeftAsItIs) {
  EXPECT_EQ(Described(3, v1::AGENT_TYPE_GPU).properties_size(), 0);
  EXPECT_EQ(Described(~0u, v1::AGENT_TYPE_GPU).properties_size(), 0);
  Node(4, "no number\nsimd_count\n\n", "", "");
  EXPECT_EQ(Described(4, v1::AGENT_TYPE_GPU).properties_size(), 0);
}

}  // namespace
}  // namespace rocattach
