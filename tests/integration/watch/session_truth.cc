#include "tests/integration/watch/session_truth.h"

#include <stdio.h>

#include <algorithm>
#include <fstream>
#include <tuple>

namespace rocattach::testing_support {
namespace {

// The GPU, times and size identify a dispatch while dispatches are counted one after
// another. Otherwise two may have the same key: then a recording shows no difference
// between them, and the order of the log decides.
using Key = std::tuple<uint32_t, uint64_t, uint64_t, uint32_t>;

using ByKey = std::multimap<Key, const SimulatedDispatch*>;

// Names of the counters of the pass that a value belongs to.
std::multiset<std::string> PassNames(const v1::SessionPlan& plan, uint32_t agent,
                                     uint32_t pass) {
  std::multiset<std::string> names;
  for (const v1::SessionAgent& of : plan.agents()) {
    if (of.agent_id() != agent) continue;
    for (const v1::SessionArchitecture& architecture : plan.architectures()) {
      if (architecture.name() != of.architecture()) continue;
      if (pass >= static_cast<uint32_t>(architecture.passes_size())) return {};
      for (uint32_t counter : architecture.passes(static_cast<int>(pass)).counters()) {
        names.insert(plan.counters(static_cast<int>(counter)));
      }
    }
  }
  return names;
}

void ExpectValue(const CounterRecord& value, const std::string& name,
                 const simrocm::DispatchShape& shape) {
  const uint64_t total = simrocm::CounterTotal(name, shape);
  ASSERT_GE(value.instances, 1u) << name;
  const uint64_t smallest = total / value.instances;
  EXPECT_EQ(value.sum, static_cast<double>(total))
      << name << " of dispatch " << shape.dispatch_id;
  EXPECT_EQ(value.minimum, static_cast<double>(smallest)) << name;
  EXPECT_EQ(value.maximum,
            static_cast<double>(smallest + (total % value.instances != 0 ? 1 : 0)))
      << name;
}

// Removes the log's entry for a recorded dispatch from `open`; null if none matches.
const SimulatedDispatch* TakeEntry(const RecordedProcess& process,
                                   const rocattach_dispatch& d, ByKey* open) {
  const auto agent = process.agents.find(d.agent_id);
  if (agent == process.agents.end()) return nullptr;
  auto found = open->find({agent->second.node_id(), d.start_ns, d.end_ns, d.grid_x});
  if (found == open->end()) return nullptr;
  const SimulatedDispatch* entry = found->second;
  open->erase(found);
  const auto& [grid, workgroup, id] = entry->shape;
  const bool alike = grid[1] == d.grid_y && grid[2] == d.grid_z &&
                     workgroup[0] == d.workgroup_x && workgroup[1] == d.workgroup_y &&
                     workgroup[2] == d.workgroup_z;
  return alike ? entry : nullptr;
}

using Matched =
    std::map<uint64_t, std::pair<const rocattach_dispatch*, const SimulatedDispatch*>>;

// Maps the correlation ID of every dispatch of the recording to the dispatch and its
// entry in the log. False if one is not in the log.
bool Match(const RecordedProcess& process, const std::vector<SimulatedDispatch>& log,
           Matched* matched) {
  ByKey open;
  for (const SimulatedDispatch& d : log) {
    open.emplace(Key(d.node, d.start_ns, d.end_ns, d.shape.grid[0]), &d);
  }
  for (const rocattach_dispatch& d : process.dispatches) {
    const SimulatedDispatch* entry = TakeEntry(process, d, &open);
    EXPECT_NE(entry, nullptr) << "the simulator has not run " << d.correlation_id;
    if (entry == nullptr) return false;
    EXPECT_TRUE(matched->emplace(d.correlation_id, std::pair(&d, entry)).second)
        << "twice";
  }
  return true;
}

// The counter values of one dispatch.
struct Seen {
  const CounterRecord* first = nullptr;
  std::multiset<std::string> names;
};

void ExpectAlike(const CounterRecord& value, const CounterRecord& first,
                 const rocattach_dispatch& dispatch) {
  EXPECT_EQ(value.kernel_id, dispatch.kernel_id);
  EXPECT_EQ(value.agent_id, dispatch.agent_id);
  EXPECT_EQ(value.session, first.session);
  EXPECT_EQ(value.plan, first.plan);
  EXPECT_EQ(value.pass, first.pass);
}

}  // namespace

std::optional<SimulatedDispatch> ParseDispatch(const std::string& line) {
  SimulatedDispatch d;
  unsigned long long id, start, end;
  int counted;
  const int fields = sscanf(
      line.c_str(),
      "id=%llu node=%u start=%llu end=%llu grid=%u,%u,%u workgroup=%u,%u,%u "
      "counted=%d",
      &id, &d.node, &start, &end, &d.shape.grid[0], &d.shape.grid[1], &d.shape.grid[2],
      &d.shape.workgroup[0], &d.shape.workgroup[1], &d.shape.workgroup[2], &counted);
  if (fields != 11) return std::nullopt;
  d.shape.dispatch_id = id;
  d.start_ns = start;
  d.end_ns = end;
  d.counted = counted != 0;
  return d;
}

std::vector<SimulatedDispatch> ReadDispatchLog(const std::string& path) {
  std::vector<SimulatedDispatch> log;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::optional<SimulatedDispatch> dispatch = ParseDispatch(line);
    EXPECT_TRUE(dispatch.has_value()) << line;
    if (!dispatch.has_value()) return {};
    log.push_back(*dispatch);
  }
  return log;
}

Compared ExpectTruth(const RecordedProcess& process,
                     const std::vector<SimulatedDispatch>& log, bool all) {
  Compared result;
  Matched matched;
  if (!Match(process, log, &matched)) return result;
  result.dispatches = matched.size();
  std::map<uint64_t, Seen> seen;
  for (const CounterRecord& value : process.counters) {
    const auto found = matched.find(value.operation);
    const auto plan = process.plans.find(value.plan);
    if (found == matched.end() || plan == process.plans.end()) {
      ADD_FAILURE() << "a value of dispatch " << value.operation << " and plan "
                    << value.plan << ", which are not there";
      return result;
    }
    const auto& [dispatch, entry] = found->second;
    const std::string& name = plan->second.counters(value.counter);
    EXPECT_TRUE(entry->counted) << "the simulator has counted nothing for it";
    ExpectValue(value, name, entry->shape);
    Seen& of = seen[value.operation];
    if (of.first == nullptr) of.first = &value;
    ExpectAlike(value, *of.first, *dispatch);
    of.names.insert(name);
    result.counters.insert(name);
    ++result.values;
    if (testing::Test::HasFailure()) return result;
  }
  for (const auto& [operation, of] : seen) {
    const rocattach_dispatch& dispatch = *matched.at(operation).first;
    EXPECT_EQ(of.names, PassNames(process.plans.at(of.first->plan), dispatch.agent_id,
                                  of.first->pass));
    result.counted.insert(operation);
    ++result.of_kernel[dispatch.kernel_id];
    if (testing::Test::HasFailure()) return result;
  }
  const auto simulated =
      std::count_if(log.begin(), log.end(), [](const auto& d) { return d.counted; });
  if (all) {
    EXPECT_EQ(result.counted.size(), static_cast<size_t>(simulated))
        << "counted, and not delivered";
  }
  return result;
}

}  // namespace rocattach::testing_support
