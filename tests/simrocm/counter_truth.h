// The values of the simulated hardware counters. The simulator and the tests both use
// this header, so that a test can check every value: it is specific to one counter, one
// dispatch and one instance.
//
//   SQ_WAVES, SPI_CSN_WAVE      wavefronts of the dispatch
//   SPI_CSN_NUM_THREADGROUPS    work-groups
//   GRBM_GUI_ACTIVE             500 + 10 * wavefronts
//   GRBM_COUNT                  1000 + 10 * wavefronts
//   every other hardware counter
//       waves * (1 + h % 97) + dispatch_id * (1 + (h / 256) % 13),
//       h = FNV-1a of the counter's name
//
//   SQ_ACCUM_PREV_HIRES, SQ_ACCUM_PREV
//       16 and 4 times the SQ counter before it, in the order of the counters' ids, not
//       of the request, which the SDK sorts; 0 if it is the first. accumulate(X,
//       HIGH_RES) and (X, LOW_RES) are 16 and 4 times X. As with SDK 1.0.0, if X and
//       accumulate(X, …) are in one config, each is the sum of both.
//
// This is a counter's total. It is divided among the n instances: each has total / n,
// and the first total % n have one more.
//
// Dispatch counting delivers these values. Device counting delivers the sums over all
// dispatches that completed on the GPU since the context was started.
#ifndef ROCATTACH_TESTS_SIMROCM_COUNTER_TRUTH_H_
#define ROCATTACH_TESTS_SIMROCM_COUNTER_TRUTH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simrocm {

inline constexpr uint32_t kWavefront = 64;
inline constexpr uint32_t kAccumulatedHighRes = 16;
inline constexpr uint32_t kAccumulatedLowRes = 4;

struct DispatchShape {
  uint32_t grid[3];       // work-items
  uint32_t workgroup[3];  // work-items
  uint64_t dispatch_id;
};

namespace truth_internal {

// The number of full work-groups in one dimension, and the size of the last one if it
// is not.
struct Split {
  uint64_t full;
  uint64_t rest;
};

constexpr Split SplitDimension(uint32_t grid, uint32_t workgroup) {
  uint64_t items = grid == 0 ? 1 : grid;
  uint64_t group = workgroup == 0 ? 1 : workgroup;
  return {items / group, items % group};
}

}  // namespace truth_internal

constexpr uint64_t WorkGroups(const DispatchShape& shape) {
  uint64_t groups = 1;
  for (int i = 0; i < 3; ++i) {
    auto split = truth_internal::SplitDimension(shape.grid[i], shape.workgroup[i]);
    groups *= split.full + (split.rest != 0 ? 1 : 0);
  }
  return groups;
}

// Work-groups do not share wavefronts; partial ones have fewer work-items.
constexpr uint64_t Waves(const DispatchShape& shape) {
  uint64_t waves = 0;
  for (unsigned partial = 0; partial < 8; ++partial) {
    uint64_t groups = 1, items = 1;
    for (int i = 0; i < 3; ++i) {
      auto split = truth_internal::SplitDimension(shape.grid[i], shape.workgroup[i]);
      if ((partial >> i) & 1) {
        groups *= split.rest != 0 ? 1 : 0;
        items *= split.rest;
      } else {
        groups *= split.full;
        items *= shape.workgroup[i] == 0 ? 1 : shape.workgroup[i];
      }
    }
    waves += groups * ((items + kWavefront - 1) / kWavefront);
  }
  return waves;
}

constexpr uint64_t NameHash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ull;
  }
  return hash;
}

// A hardware counter's sum over its instances.
constexpr uint64_t CounterTotal(std::string_view name, const DispatchShape& shape) {
  const uint64_t waves = Waves(shape);
  if (name == "SQ_WAVES" || name == "SPI_CSN_WAVE") return waves;
  if (name == "SPI_CSN_NUM_THREADGROUPS") return WorkGroups(shape);
  if (name == "GRBM_GUI_ACTIVE") return 500 + 10 * waves;
  if (name == "GRBM_COUNT") return 1000 + 10 * waves;
  const uint64_t hash = NameHash(name);
  return waves * (1 + hash % 97) + shape.dispatch_id * (1 + (hash / 256) % 13);
}

// One of `instances` instances; they are numbered with the last dimension running
// fastest (see InstanceNumber).
constexpr uint64_t CounterValue(std::string_view name, const DispatchShape& shape,
                                uint64_t instance, uint64_t instances) {
  const uint64_t total = CounterTotal(name, shape);
  return total / instances + (instance < total % instances ? 1 : 0);
}

// The number of the instance at `positions` in dimensions of `sizes`.
constexpr uint64_t InstanceNumber(const size_t* positions, const size_t* sizes,
                                  size_t dimensions) {
  uint64_t number = 0;
  for (size_t i = 0; i < dimensions; ++i) number = number * sizes[i] + positions[i];
  return number;
}

static_assert(Waves({{4096, 1, 1}, {64, 1, 1}, 1}) == 64);
static_assert(Waves({{100000, 1, 1}, {256, 1, 1}, 1}) == 390 * 4 + 3);
static_assert(Waves({{100, 3, 1}, {64, 2, 1}, 1}) == 2 + 1 + 2 + 1);
static_assert(WorkGroups({{100, 3, 1}, {64, 2, 1}, 1}) == 4);

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_COUNTER_TRUTH_H_
