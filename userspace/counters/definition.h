// The contents of counter files: hardware blocks, counters, metrics and named groups.
#ifndef ROCATTACH_USERSPACE_COUNTERS_DEFINITION_H_
#define ROCATTACH_USERSPACE_COUNTERS_DEFINITION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "userspace/counters/expression.h"

namespace rocattach {

// A hardware unit of the GPU that has counters.
struct CounterBlock {
  std::string name;  // "SQ"
  std::string description;
  // Number of counters that one pass can hold; 0: not known, nothing can be planned.
  uint32_t counters = 0;
};

// A value that the hardware counts.
struct HardwareCounter {
  std::string name;   // "SQ_WAVES"
  std::string block;  // CounterBlock.name
  std::string description;
  // Number of the block's counters that it takes: 1, 2, 4 or 8.
  uint32_t slots = 1;
  // It accumulates the counter named before it in a request and is measured with it; a
  // pass can have only one such counter of each name.
  bool follows = false;
  // The SDK makes it from others on request; it is not one of its block's counters.
  bool made = false;
  // The first version of rocprofiler-sdk that has it, "1.1"; empty: the first that has
  // the architecture.
  std::string since;
};

// A number computed from counters and other metrics.
struct DerivedMetric {
  std::string name;  // "L2CacheHit"
  std::string unit;  // "percent"; empty for plain numbers
  std::string description;
  std::string text;  // the expression as written
  Expression expression;
  // The hardware counters that it is based on, including those of all metrics that it
  // uses. Set by the catalog.
  std::vector<std::string> counters;
};

// A named group: names of counters, of metrics, and of blocks (all of their counters).
struct CounterGroup {
  std::string name;  // a set's name, or a section's number such as "5.1"
  std::string description;
  std::vector<std::string> members;
};

// The definitions of one file for some architectures.
struct CounterDefinitions {
  std::vector<std::string> architectures;  // "gfx90a"
  std::vector<CounterBlock> blocks;
  std::vector<HardwareCounter> counters;
  std::vector<DerivedMetric> metrics;
  std::vector<CounterGroup> sets;
  std::vector<CounterGroup> sections;
  // The first version of rocprofiler-sdk that has an architecture, by its name;
  // architectures that are not named are in the first version that can be used.
  std::map<std::string, std::string> since;
};

// The first version of rocprofiler-sdk whose counters can be measured.
inline constexpr char kFirstSdk[] = "1.0";

// The names that an expression may use besides counters: properties of the GPU.
inline constexpr const char* kAgentConstants[] = {"MAX_WAVE_SIZE", "SE_NUM", "SIMD_NUM",
                                                  "CU_NUM", "XCC_NUM"};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_DEFINITION_H_
