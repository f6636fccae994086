// Definitions of counters that a tool passes to the SDK.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_DEFINITIONS_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_DEFINITIONS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace simrocm::sdk {

// One definition of a counter; a counter has one for each group of architectures.
struct CounterDefinition {
  std::string name, description, expression;
  std::set<std::string> architectures;
};

// Parses definitions of schema version 1, in YAML's block style with a key on each
// line; only `architectures` may also be a list in brackets. nullopt for anything else.
std::optional<std::vector<CounterDefinition>> ParseDefinitions(const std::string& yaml);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_DEFINITIONS_H_
