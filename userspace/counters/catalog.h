// The counters of each GPU architecture, the hardware that they need, and the metrics
// and named groups that are based on them.
#ifndef ROCATTACH_USERSPACE_COUNTERS_CATALOG_H_
#define ROCATTACH_USERSPACE_COUNTERS_CATALOG_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/definition.h"

namespace rocattach {

// All that is known of one architecture. Lookups are exact; pointers are valid until
// something is added to the catalog.
class ArchitectureCounters {
 public:
  explicit ArchitectureCounters(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const std::vector<CounterBlock>& blocks() const { return blocks_; }
  const std::vector<HardwareCounter>& counters() const { return counters_; }
  const std::vector<DerivedMetric>& metrics() const { return metrics_; }
  const std::vector<CounterGroup>& sets() const { return sets_; }
  const std::vector<CounterGroup>& sections() const { return sections_; }

  // nullptr when there is none.
  const CounterBlock* FindBlock(absl::string_view name) const;
  const HardwareCounter* FindCounter(absl::string_view name) const;
  const DerivedMetric* FindMetric(absl::string_view name) const;
  const CounterGroup* FindSet(absl::string_view name) const;
  const CounterGroup* FindSection(absl::string_view name) const;

  // The first version of rocprofiler-sdk that has this counter or metric, such as
  // "1.0"; for a metric, the first that has all counters that it needs.
  std::string Since(absl::string_view name) const;

  // True for counters and metrics.
  bool Knows(absl::string_view name) const {
    return FindCounter(name) != nullptr || FindMetric(name) != nullptr;
  }

  // Names of all counters and metrics.
  std::vector<std::string> Names() const;

  // COUNTER_NOT_FOUND with the nearest names.
  absl::Status UnknownCounter(absl::string_view name) const;

  // The members of a group as counters and metrics: a block stands for all of its
  // counters, except those that follow others and those that the SDK makes.
  absl::StatusOr<std::vector<std::string>> Members(const CounterGroup& group) const;

  // Value of a metric. `lookup` returns hardware counters and kAgentConstants; metrics
  // that this one uses are evaluated here.
  std::optional<double> Evaluate(const DerivedMetric& metric,
                                 const Expression::Lookup& lookup) const;

 private:
  friend class CounterCatalog;
  absl::Status Merge(const CounterDefinitions& definitions, absl::string_view source);
  absl::Status ResolveMetrics(absl::string_view source);
  absl::Status Resolve(size_t metric, std::vector<char>& state,
                       absl::string_view source);

  std::string name_;
  std::string since_ = kFirstSdk;  // first SDK version with the architecture
  std::vector<CounterBlock> blocks_;
  std::vector<HardwareCounter> counters_;
  std::vector<DerivedMetric> metrics_;
  std::vector<CounterGroup> sets_;
  std::vector<CounterGroup> sections_;
  absl::flat_hash_map<std::string, size_t> counter_index_;
  absl::flat_hash_map<std::string, size_t> metric_index_;
};

class CounterCatalog {
 public:
  // An empty catalog.
  CounterCatalog() = default;

  // The definitions that this program ships.
  static absl::StatusOr<CounterCatalog> Builtin();

  // Adds or overrides definitions; on an error nothing is changed.
  absl::Status Add(absl::string_view yaml, absl::string_view source);
  absl::Status AddFile(const std::string& path);
  absl::Status Add(const CounterDefinitions& definitions, absl::string_view source);

  // "gfx90a"; features as in "gfx90a:sramecc+:xnack-" are ignored. nullptr when
  // unknown.
  const ArchitectureCounters* Find(absl::string_view architecture) const;

  // In alphabetical order.
  std::vector<std::string> Architectures() const;

  // OK if any architecture has this counter or metric; else COUNTER_NOT_FOUND with the
  // nearest names.
  absl::Status CheckKnown(absl::string_view name) const;

 private:
  std::map<std::string, ArchitectureCounters> architectures_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_CATALOG_H_
