// Facts about counters that outputs give besides values, from the counter catalogue.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_COUNTER_FACTS_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_COUNTER_FACTS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/counters/catalog.h"

namespace rocattach {

struct CounterFact {
  std::string description;
  std::string block;       // hardware block; empty for metrics
  std::string expression;  // metrics only
  bool derived = false;    // true for a metric
};

// Shared by the sinks of a conversion. The catalogue is loaded on first use.
class CounterFacts {
 public:
  // `architecture`: an agent's name, such as "gfx90a". Empty texts if it is not known.
  CounterFact Of(absl::string_view architecture, absl::string_view counter);

 private:
  std::optional<CounterCatalog> catalog_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_COUNTER_FACTS_H_
