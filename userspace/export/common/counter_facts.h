// What outputs say of a counter beside its values: from the catalogue of counters.
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
  std::string expression;  // of a metric
  bool derived = false;    // a metric
};

// Shared by the sinks of a conversion. The catalogue is loaded at the first question.
class CounterFacts {
 public:
  // `architecture`: as an agent's name, "gfx90a". Empty texts where it is not known.
  CounterFact Of(absl::string_view architecture, absl::string_view counter);

 private:
  std::optional<CounterCatalog> catalog_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_COUNTER_FACTS_H_
