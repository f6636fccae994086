#include "userspace/export/common/counter_facts.h"

#include <utility>

namespace rocattach {

CounterFact CounterFacts::Of(absl::string_view architecture,
                             absl::string_view counter) {
  if (!catalog_.has_value()) {
    absl::StatusOr<CounterCatalog> built = CounterCatalog::Builtin();
    // Without the catalogue, outputs lack only the descriptions.
    catalog_ = built.ok() ? *std::move(built) : CounterCatalog();
  }
  CounterFact fact;
  const ArchitectureCounters* known = catalog_->Find(architecture);
  if (known == nullptr) return fact;
  if (const HardwareCounter* found = known->FindCounter(counter)) {
    fact.description = found->description;
    fact.block = found->block;
  } else if (const DerivedMetric* metric = known->FindMetric(counter)) {
    fact.description = metric->description;
    fact.expression = metric->text;
    fact.derived = true;
  }
  return fact;
}

}  // namespace rocattach
