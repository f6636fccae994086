#include "userspace/counters/pass_planner.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/session_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// A longer request is a mistake; this also bounds the plan's tables.
constexpr size_t kMaxRequest = 2048;
constexpr size_t kMaxPasses = 64;

// The unit that goes into a pass: a counter, or a counter and its follower.
struct Atom {
  const HardwareCounter* leader = nullptr;
  const HardwareCounter* follower = nullptr;
  size_t block = 0;  // index of ArchitectureCounters::blocks()
  uint32_t slots() const { return leader->slots + (follower != nullptr ? 1 : 0); }
  CounterNames names() const {
    CounterNames names = {leader->name};
    if (follower != nullptr) names.push_back(follower->name);
    return names;
  }
};

// True if `made` is `plain` added up over time.
bool IsAccumulationOf(const Atom& made, const Atom& plain) {
  return made.leader->made && !plain.leader->made &&
         made.leader->name == absl::StrCat(plain.leader->name, "_ACCUM");
}

// The request in terms of hardware counters.
struct Request {
  std::vector<Atom> atoms;
  // Atoms that should be together: those of metrics, then those of groups.
  std::vector<std::vector<size_t>> bundles;
  size_t metric_bundles = 0;
  std::vector<PlannedValue> values;
};

class RequestBuilder {
 public:
  RequestBuilder(const ArchitectureCounters& architecture, Request& request)
      : architecture_(architecture), request_(request) {}

  absl::Status Add(const CounterNames& group) {
    std::vector<size_t> together;
    size_t last = kNone;
    for (const std::string& name : group) {
      if (const DerivedMetric* metric = architecture_.FindMetric(name)) {
        ASSIGN_OR_RETURN(std::vector<size_t> atoms, AddMetric(*metric));
        request_.bundles.push_back(atoms);
        together.insert(together.end(), atoms.begin(), atoms.end());
        last = kNone;
        AddValue(name, true);
        continue;
      }
      const HardwareCounter* counter = architecture_.FindCounter(name);
      if (counter == nullptr) return architecture_.UnknownCounter(name);
      if (counter->follows) {
        ASSIGN_OR_RETURN(last, Glue(*counter, last));
      } else {
        ASSIGN_OR_RETURN(last, AddAtom(counter, nullptr));
      }
      together.push_back(last);
      AddValue(name, false);
    }
    if (together.size() > 1) group_bundles_.push_back(std::move(together));
    return absl::OkStatus();
  }

  // Groups come after metrics: a metric that is split costs more than a split group.
  void Finish() {
    request_.metric_bundles = request_.bundles.size();
    for (auto& bundle : group_bundles_) request_.bundles.push_back(std::move(bundle));
    MergePlainIntoGlued();
    for (auto& bundle : request_.bundles) {
      std::sort(bundle.begin(), bundle.end());
      bundle.erase(std::unique(bundle.begin(), bundle.end()), bundle.end());
    }
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  using Key = std::pair<std::string, std::string>;

  // Drops plain counters that are measured together with their followers as well.
  void MergePlainIntoGlued() {
    std::vector<Atom>& atoms = request_.atoms;
    std::vector<size_t> target(atoms.size());
    std::vector<Atom> kept;
    std::map<const HardwareCounter*, size_t> glued;
    for (size_t i = 0; i < atoms.size(); ++i) {
      if (atoms[i].follower == nullptr) continue;
      target[i] = kept.size();
      glued.emplace(atoms[i].leader, kept.size());
      kept.push_back(atoms[i]);
    }
    for (size_t i = 0; i < atoms.size(); ++i) {
      if (atoms[i].follower != nullptr) continue;
      auto found = glued.find(atoms[i].leader);
      target[i] = found == glued.end() ? kept.size() : found->second;
      if (found == glued.end()) kept.push_back(atoms[i]);
    }
    for (auto& bundle : request_.bundles) {
      for (size_t& atom : bundle) atom = target[atom];
    }
    atoms = std::move(kept);
  }

  void AddValue(const std::string& name, bool metric) {
    for (const PlannedValue& value : request_.values) {
      if (value.name == name) return;
    }
    request_.values.push_back({name, metric, {}});
  }

  absl::StatusOr<std::vector<size_t>> AddMetric(const DerivedMetric& metric) {
    std::vector<size_t> atoms;
    for (const std::string& name : metric.counters) {
      const HardwareCounter* counter = architecture_.FindCounter(name);
      if (counter == nullptr) return architecture_.UnknownCounter(name);
      if (counter->follows) {
        return SessionError(SessionStatus::kCounterInformationMissing,
                            absl::StrCat("metric ", metric.name, " uses ", name,
                                         ", which has no meaning by itself"));
      }
      ASSIGN_OR_RETURN(atoms.emplace_back(), AddAtom(counter, nullptr));
    }
    return atoms;
  }

  absl::StatusOr<size_t> Glue(const HardwareCounter& follower, size_t last) {
    if (last == kNone || request_.atoms[last].follower != nullptr ||
        request_.atoms[last].leader->block != follower.block) {
      return SessionError(
          SessionStatus::kCounterInformationMissing,
          absl::StrCat(follower.name,
                       " accumulates the counter named before it, which "
                       "must be one of block ",
                       follower.block));
    }
    return AddAtom(request_.atoms[last].leader, &follower);
  }

  absl::StatusOr<size_t> AddAtom(const HardwareCounter* leader,
                                 const HardwareCounter* follower) {
    Atom atom = {leader, follower, 0};
    const Key key(atom.leader->name,
                  atom.follower == nullptr ? "" : atom.follower->name);
    auto found = index_.find(key);
    if (found != index_.end()) return found->second;
    const CounterBlock* block = architecture_.FindBlock(atom.leader->block);
    if (block == nullptr || block->counters < atom.slots()) {
      return SessionError(
          SessionStatus::kCounterInformationMissing,
          absl::StrCat(
              "no pass can hold ", absl::StrJoin(atom.names(), " with "), ": it takes ",
              atom.slots(), " counters of block ", atom.leader->block, ", which has ",
              block == nullptr ? 0 : block->counters, " on ", architecture_.name()));
    }
    atom.block = static_cast<size_t>(block - architecture_.blocks().data());
    const size_t index = request_.atoms.size();
    request_.atoms.push_back(atom);
    index_.emplace(key, index);
    return index;
  }

  const ArchitectureCounters& architecture_;
  Request& request_;
  std::vector<std::vector<size_t>> group_bundles_;
  std::map<Key, size_t> index_;
};

// Passes being filled.
class Packing {
 public:
  Packing(const ArchitectureCounters& architecture, const std::vector<Atom>& atoms,
          size_t passes)
      : atoms_(&atoms),
        held_(passes),
        used_(passes, std::vector<uint32_t>(architecture.blocks().size())),
        placed_(atoms.size(), false) {
    for (const CounterBlock& block : architecture.blocks()) {
      limits_.push_back(block.counters);
    }
  }

  // First fit by decreasing size; false if there is no room for an atom.
  bool PlaceRest() {
    std::vector<size_t> rest;
    for (size_t atom = 0; atom < atoms_->size(); ++atom) {
      if (!placed_[atom]) rest.push_back(atom);
    }
    std::stable_sort(rest.begin(), rest.end(), [&](size_t a, size_t b) {
      // Accumulators before plain counters of their size: they fit into fewer passes.
      return std::make_pair(At(a).slots(), At(a).follower != nullptr) >
             std::make_pair(At(b).slots(), At(b).follower != nullptr);
    });
    for (size_t atom : rest) {
      size_t pass = 0;
      while (pass < held_.size() && !Fits(pass, At(atom))) ++pass;
      if (pass == held_.size()) return false;
      Place(pass, atom);
    }
    return true;
  }

  // Puts the atoms of a bundle into the pass where the fewest are missing, if all others
  // can still be placed afterwards; among equals, into the first or, with `spread`,
  // into the emptiest one. False if there is no such pass.
  bool Grant(const std::vector<size_t>& bundle, bool spread) {
    std::vector<std::array<size_t, 3>> order;  // missing atoms, atoms held, pass
    for (size_t pass = 0; pass < held_.size(); ++pass) {
      size_t missing = 0;
      for (size_t atom : bundle) missing += Holds(pass, atom) ? 0 : 1;
      if (missing == 0) return true;
      order.push_back({missing, spread ? held_[pass].size() : 0, pass});
    }
    std::sort(order.begin(), order.end());
    for (const auto& [missing, held, pass] : order) {
      Packing trial = *this;
      bool fits = true;
      for (size_t atom : bundle) {
        if (trial.Holds(pass, atom)) continue;
        fits = trial.Fits(pass, At(atom));
        if (!fits) break;
        trial.Place(pass, atom);
      }
      if (fits && Packing(trial).PlaceRest()) {
        *this = std::move(trial);
        return true;
      }
    }
    return false;
  }

  std::vector<CounterPass> Result() const {
    std::vector<CounterPass> result;
    for (std::vector<size_t> held : held_) {
      std::sort(held.begin(), held.end());  // in the order of the request
      CounterPass pass;
      for (size_t atom : held) {
        for (std::string& name : At(atom).names()) {
          pass.counters.push_back(std::move(name));
        }
      }
      result.push_back(std::move(pass));
    }
    return result;
  }

 private:
  const Atom& At(size_t atom) const { return (*atoms_)[atom]; }

  bool Holds(size_t pass, size_t atom) const {
    return std::find(held_[pass].begin(), held_[pass].end(), atom) != held_[pass].end();
  }

  bool Fits(size_t pass, const Atom& atom) const {
    if (used_[pass][atom.block] + atom.slots() > limits_[atom.block]) return false;
    // rocprofiler-sdk 1.0 returns the sum of both for each of them.
    for (size_t other : held_[pass]) {
      if (IsAccumulationOf(atom, At(other)) || IsAccumulationOf(At(other), atom)) {
        return false;
      }
    }
    if (atom.follower == nullptr) return true;
    // Two values of one name in one pass could not be distinguished.
    return std::none_of(held_[pass].begin(), held_[pass].end(), [&](size_t other) {
      return At(other).follower != nullptr &&
             (At(other).follower == atom.follower || At(other).leader == atom.leader);
    });
  }

  void Place(size_t pass, size_t atom) {
    held_[pass].push_back(atom);
    used_[pass][At(atom).block] += At(atom).slots();
    placed_[atom] = true;
  }

  const std::vector<Atom>* atoms_;
  std::vector<std::vector<size_t>> held_;    // atoms by pass
  std::vector<std::vector<uint32_t>> used_;  // slots by pass and block
  std::vector<uint32_t> limits_;             // by block
  std::vector<bool> placed_;
};

// A lower bound on the number of passes of any packing.
size_t LowerBound(const ArchitectureCounters& architecture,
                  const std::vector<Atom>& atoms) {
  std::map<std::string, size_t> slots;
  std::map<std::string, size_t> followers;
  for (const Atom& atom : atoms) {
    slots[atom.leader->block] += atom.slots();
    if (atom.follower != nullptr) ++followers[atom.follower->name];
  }
  size_t bound = 1;
  for (const auto& [block, sum] : slots) {
    const size_t limit = architecture.FindBlock(block)->counters;
    bound = std::max(bound, (sum + limit - 1) / limit);
  }
  for (const auto& [name, count] : followers) bound = std::max(bound, count);
  return bound;
}

// Places bundles in a given order, metrics first, then the remaining atoms.
struct Attempt {
  Packing packing;
  size_t metrics = 0, groups = 0;  // bundles granted
};

Attempt Try(const Packing& empty, const Request& request, uint32_t number) {
  Attempt attempt = {empty};
  std::vector<size_t> order(request.bundles.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto metrics_end = order.begin() + static_cast<ptrdiff_t>(request.metric_bundles);
  const auto& bundles = request.bundles;
  if (number / 2 == 1) {
    std::stable_sort(order.begin(), metrics_end, [&](size_t a, size_t b) {
      return bundles[a].size() > bundles[b].size();
    });
  } else if (number / 2 > 1) {
    // A fixed seed: a plan must not differ between runs.
    std::mt19937 random(number / 2);
    for (size_t i = request.metric_bundles; i > 1; --i) {
      std::swap(order[i - 1], order[random() % i]);
    }
  }
  for (size_t i : order) {
    const bool granted = attempt.packing.Grant(bundles[i], number % 2 == 1);
    (i < request.metric_bundles ? attempt.metrics : attempt.groups) += granted ? 1 : 0;
  }
  attempt.packing.PlaceRest();
  return attempt;
}

absl::StatusOr<std::vector<CounterPass>> Pack(const ArchitectureCounters& architecture,
                                              const Request& request) {
  // Finding the most bundles that fit is a hard problem; some orders work well.
  constexpr uint32_t kAttempts = 32;
  if (request.atoms.empty()) return std::vector<CounterPass>();
  for (size_t count = LowerBound(architecture, request.atoms); count <= kMaxPasses;
       ++count) {
    const Packing empty(architecture, request.atoms, count);
    if (!Packing(empty).PlaceRest()) continue;
    Attempt best = Try(empty, request, 0);
    for (uint32_t number = 1;
         number < kAttempts && best.metrics < request.metric_bundles; ++number) {
      Attempt attempt = Try(empty, request, number);
      if (std::tie(attempt.metrics, attempt.groups) >
          std::tie(best.metrics, best.groups)) {
        best = std::move(attempt);
      }
    }
    return best.packing.Result();
  }
  return SessionError(
      SessionStatus::kInvalidArguments,
      absl::StrCat("the request takes more than ", kMaxPasses, " passes"));
}

// Says in words which block made more than one pass necessary.
std::string Shortage(const ArchitectureCounters& architecture, const Request& request) {
  std::map<std::string, uint32_t> slots;
  for (const Atom& atom : request.atoms) slots[atom.leader->block] += atom.slots();
  for (const auto& [block, used] : slots) {
    const uint32_t limit = architecture.FindBlock(block)->counters;
    if (used > limit) {
      return absl::StrCat("; block ", block, " has ", limit, " counters and ", used,
                          " are requested");
    }
  }
  return "";
}

void FillValues(const ArchitectureCounters& architecture, PassAssignment& plan) {
  for (PlannedValue& value : plan.values) {
    const CounterNames needs = value.metric
                                   ? architecture.FindMetric(value.name)->counters
                                   : CounterNames{value.name};
    for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
      const CounterNames& has = plan.passes[pass].counters;
      const bool all = std::all_of(needs.begin(), needs.end(), [&](const auto& name) {
        return std::find(has.begin(), has.end(), name) != has.end();
      });
      if (all) value.passes.push_back(pass);
    }
  }
}

absl::Status Append(const ArchitectureCounters& architecture,
                    const std::vector<CounterNames>& groups, PassAssignment& plan) {
  Request request;
  RequestBuilder builder(architecture, request);
  for (const CounterNames& group : groups) RETURN_IF_ERROR(builder.Add(group));
  builder.Finish();
  ASSIGN_OR_RETURN(std::vector<CounterPass> passes, Pack(architecture, request));
  for (CounterPass& pass : passes) plan.passes.push_back(std::move(pass));
  for (PlannedValue& value : request.values) {
    const bool known =
        std::any_of(plan.values.begin(), plan.values.end(),
                    [&](const PlannedValue& old) { return old.name == value.name; });
    if (!known) plan.values.push_back(std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PassAssignment> PlanPasses(const ArchitectureCounters& architecture,
                                          const std::vector<CounterNames>& groups,
                                          const PassOptions& options) {
  size_t names = 0;
  for (const CounterNames& group : groups) names += group.size();
  if (names > kMaxRequest) {
    return SessionError(SessionStatus::kInvalidArguments,
                        absl::StrCat("more than ", kMaxRequest, " counters"));
  }
  PassAssignment plan;
  plan.architecture = architecture.name();
  if (options.keep_groups) {
    for (const CounterNames& group : groups) {
      RETURN_IF_ERROR(Append(architecture, {group}, plan));
    }
  } else {
    RETURN_IF_ERROR(Append(architecture, groups, plan));
  }
  if (plan.passes.size() > kMaxPasses) {
    return SessionError(
        SessionStatus::kInvalidArguments,
        absl::StrCat("the request takes more than ", kMaxPasses, " passes"));
  }
  if (options.single_pass && plan.passes.size() > 1) {
    Request request;
    RequestBuilder builder(architecture, request);
    for (const CounterNames& group : groups) RETURN_IF_ERROR(builder.Add(group));
    return SessionError(
        SessionStatus::kInvalidArguments,
        absl::StrCat("these counters take ", plan.passes.size(), " passes on ",
                     architecture.name(), ", and a single one was requested",
                     Shortage(architecture, request)));
  }
  FillValues(architecture, plan);
  return plan;
}

}  // namespace rocattach
