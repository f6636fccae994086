#include "userspace/counters/catalog.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "userspace/base/file.h"
#include "userspace/base/nearest_names.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/counters/definition_file.h"
#include "userspace/counters/document.h"

namespace rocattach {
namespace {

// Replaces the element of the same name, or appends the new one.
template <typename T>
void Put(std::vector<T>& elements, const T& element) {
  for (T& old : elements) {
    if (old.name == element.name) {
      old = element;
      return;
    }
  }
  elements.push_back(element);
}

template <typename T>
const T* FindByName(const std::vector<T>& elements, absl::string_view name) {
  for (const T& element : elements) {
    if (element.name == name) return &element;
  }
  return nullptr;
}

template <typename T>
void PutIndexed(std::vector<T>& elements,
                absl::flat_hash_map<std::string, size_t>& index, const T& element) {
  auto [entry, added] = index.try_emplace(element.name, elements.size());
  if (added) {
    elements.push_back(element);
  } else {
    elements[entry->second] = element;
  }
}

// "1.10" is later than "1.9".
bool IsLaterVersion(absl::string_view a, absl::string_view b) {
  const auto numbers = [](absl::string_view version) {
    std::vector<uint32_t> parts;
    for (absl::string_view part : absl::StrSplit(version, '.')) {
      uint32_t number = 0;
      parts.push_back(absl::SimpleAtoi(part, &number) ? number : 0);
    }
    return parts;
  };
  return numbers(a) > numbers(b);
}

bool IsAgentConstant(absl::string_view name) {
  for (const char* constant : kAgentConstants) {
    if (name == constant) return true;
  }
  return false;
}

}  // namespace

const CounterBlock* ArchitectureCounters::FindBlock(absl::string_view name) const {
  return FindByName(blocks_, name);
}

const HardwareCounter* ArchitectureCounters::FindCounter(absl::string_view name) const {
  auto found = counter_index_.find(name);
  return found == counter_index_.end() ? nullptr : &counters_[found->second];
}

const DerivedMetric* ArchitectureCounters::FindMetric(absl::string_view name) const {
  auto found = metric_index_.find(name);
  return found == metric_index_.end() ? nullptr : &metrics_[found->second];
}

const CounterGroup* ArchitectureCounters::FindSet(absl::string_view name) const {
  return FindByName(sets_, name);
}

const CounterGroup* ArchitectureCounters::FindSection(absl::string_view name) const {
  return FindByName(sections_, name);
}

std::vector<std::string> ArchitectureCounters::Names() const {
  std::vector<std::string> names;
  for (const HardwareCounter& counter : counters_) names.push_back(counter.name);
  for (const DerivedMetric& metric : metrics_) names.push_back(metric.name);
  return names;
}

absl::Status ArchitectureCounters::UnknownCounter(absl::string_view name) const {
  return SessionError(
      SessionStatus::kCounterNotFound,
      absl::StrCat("the catalogue has no counter or metric \"", name, "\" of ", name_,
                   DidYouMean(NearestNames(name, Names(), 3))));
}

absl::StatusOr<std::vector<std::string>> ArchitectureCounters::Members(
    const CounterGroup& group) const {
  std::vector<std::string> members;
  for (const std::string& member : group.members) {
    if (Knows(member)) {
      members.push_back(member);
      continue;
    }
    if (FindBlock(member) == nullptr) return UnknownCounter(member);
    for (const HardwareCounter& counter : counters_) {
      if (counter.block != member || counter.follows || counter.made) continue;
      members.push_back(counter.name);
    }
  }
  return members;
}

std::optional<double> ArchitectureCounters::Evaluate(
    const DerivedMetric& metric, const Expression::Lookup& lookup) const {
  // Each metric is computed once, however often others mention it. Resolve has checked
  // that metrics do not refer to themselves, so this terminates.
  std::map<const DerivedMetric*, std::optional<double>> known;
  std::function<std::optional<double>(const DerivedMetric&)> evaluate;
  evaluate = [&](const DerivedMetric& current) -> std::optional<double> {
    auto found = known.find(&current);
    if (found != known.end()) return found->second;
    const std::optional<double> value = current.expression.Evaluate(
        [&](const std::string& name, Reduction reduction) -> std::optional<double> {
          const DerivedMetric* inner = FindMetric(name);
          return inner != nullptr ? evaluate(*inner) : lookup(name, reduction);
        });
    known.emplace(&current, value);
    return value;
  };
  return evaluate(metric);
}

std::string ArchitectureCounters::Since(absl::string_view name) const {
  if (const HardwareCounter* counter = FindCounter(name); counter != nullptr) {
    return counter->since.empty() ? since_ : counter->since;
  }
  std::string latest = since_;
  if (const DerivedMetric* metric = FindMetric(name); metric != nullptr) {
    for (const std::string& needed : metric->counters) {
      std::string since = Since(needed);
      if (IsLaterVersion(since, latest)) latest = std::move(since);
    }
  }
  return latest;
}

absl::Status ArchitectureCounters::Merge(const CounterDefinitions& definitions,
                                         absl::string_view source) {
  if (const auto since = definitions.since.find(name_);
      since != definitions.since.end()) {
    since_ = since->second;
  }
  for (const CounterBlock& block : definitions.blocks) Put(blocks_, block);
  for (const HardwareCounter& counter : definitions.counters) {
    if (metric_index_.contains(counter.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": ", counter.name, " is a metric already"));
    }
    if (FindBlock(counter.block) == nullptr) {
      std::vector<std::string> blocks;
      for (const CounterBlock& block : blocks_) blocks.push_back(block.name);
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": counter ", counter.name, ": ", name_, " has no block \"",
          counter.block, "\"; there are ", absl::StrJoin(blocks, ", ")));
    }
    PutIndexed(counters_, counter_index_, counter);
  }
  for (const DerivedMetric& metric : definitions.metrics) {
    if (counter_index_.contains(metric.name) || IsAgentConstant(metric.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": ", metric.name, " is a counter already"));
    }
    PutIndexed(metrics_, metric_index_, metric);
  }
  for (const CounterGroup& set : definitions.sets) Put(sets_, set);
  for (const CounterGroup& section : definitions.sections) Put(sections_, section);
  RETURN_IF_ERROR(ResolveMetrics(source));
  for (const auto* groups : {&sets_, &sections_}) {
    for (const CounterGroup& group : *groups) {
      auto members = Members(group);
      if (!members.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            source, ": group ", group.name, ": ", members.status().message()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ArchitectureCounters::ResolveMetrics(absl::string_view source) {
  std::vector<char> state(metrics_.size(), 0);  // 0 new, 1 in progress, 2 done
  for (size_t i = 0; i < metrics_.size(); ++i) {
    RETURN_IF_ERROR(Resolve(i, state, source));
  }
  return absl::OkStatus();
}

absl::Status ArchitectureCounters::Resolve(size_t metric, std::vector<char>& state,
                                           absl::string_view source) {
  DerivedMetric& self = metrics_[metric];
  if (state[metric] == 2) return absl::OkStatus();
  auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": metric ", self.name, " of ", name_, ": ", what));
  };
  if (state[metric] == 1) return error("refers to itself");
  // Chains of metrics are followed recursively, here and in their evaluation.
  if (std::count(state.begin(), state.end(), 1) >= 32) return error("too many levels");
  state[metric] = 1;
  std::vector<std::string> counters;
  std::set<std::string> seen;
  auto add = [&](const std::string& name) {
    if (seen.insert(name).second) counters.push_back(name);
  };
  for (const std::string& name : self.expression.names()) {
    if (IsAgentConstant(name)) continue;
    if (counter_index_.contains(name)) {
      add(name);
      continue;
    }
    auto inner = metric_index_.find(name);
    if (inner == metric_index_.end()) {
      return error(UnknownCounter(name).message());
    }
    RETURN_IF_ERROR(Resolve(inner->second, state, source));
    for (const std::string& counter : metrics_[inner->second].counters) add(counter);
  }
  self.counters = std::move(counters);
  state[metric] = 2;
  return absl::OkStatus();
}

absl::StatusOr<CounterCatalog> CounterCatalog::Builtin() {
  CounterCatalog catalog;
  for (const BuiltinCounterFile& file : BuiltinCounterFiles()) {
    RETURN_IF_ERROR(catalog.Add(file.text, file.name));
  }
  return catalog;
}

absl::Status CounterCatalog::Add(absl::string_view yaml, absl::string_view source) {
  ASSIGN_OR_RETURN(const Document document, ParseYaml(yaml, source));
  ASSIGN_OR_RETURN(const std::vector<CounterDefinitions> all,
                   ReadCounterDefinitions(document, source));
  if (all.size() == 1) return Add(all.front(), source);
  std::map<std::string, ArchitectureCounters> before = architectures_;
  for (const CounterDefinitions& definitions : all) {
    if (absl::Status status = Add(definitions, source); !status.ok()) {
      architectures_ = std::move(before);
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CounterCatalog::Add(const CounterDefinitions& definitions,
                                 absl::string_view source) {
  // Copies only what changes: each start of a program adds every shipped file.
  std::map<std::string, ArchitectureCounters> changed;
  for (const std::string& name : definitions.architectures) {
    if (!absl::StartsWith(name, "gfx") || name.size() > 15) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": \"", name, "\" is not an architecture"));
    }
    auto known = architectures_.find(name);
    auto entry = changed
                     .try_emplace(name, known != architectures_.end()
                                            ? known->second
                                            : ArchitectureCounters(name))
                     .first;
    RETURN_IF_ERROR(entry->second.Merge(definitions, source));
  }
  for (auto& [name, counters] : changed) {
    architectures_.insert_or_assign(name, std::move(counters));
  }
  return absl::OkStatus();
}

absl::Status CounterCatalog::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxDocumentBytes));
  return Add(text, path);
}

const ArchitectureCounters* CounterCatalog::Find(absl::string_view architecture) const {
  architecture = architecture.substr(0, architecture.find(':'));
  auto found = architectures_.find(std::string(architecture));
  return found == architectures_.end() ? nullptr : &found->second;
}

std::vector<std::string> CounterCatalog::Architectures() const {
  std::vector<std::string> names;
  for (const auto& [name, counters] : architectures_) names.push_back(name);
  return names;
}

absl::Status CounterCatalog::CheckKnown(absl::string_view name) const {
  std::set<std::string> all;
  for (const auto& [architecture, counters] : architectures_) {
    if (counters.Knows(name)) return absl::OkStatus();
    for (std::string& known : counters.Names()) all.insert(std::move(known));
  }
  const std::vector<std::string> names(all.begin(), all.end());
  return SessionError(
      SessionStatus::kCounterNotFound,
      absl::StrCat("\"", name,
                   "\" is not in the catalogue of counters and metrics (a file given "
                   "with --extra-counters adds to it)",
                   DidYouMean(NearestNames(name, names, 3))));
}

}  // namespace rocattach
