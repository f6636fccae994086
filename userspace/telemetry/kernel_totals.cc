#include "userspace/telemetry/kernel_totals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

constexpr char kNoName[] = "(no name)";
// Another kernel takes the place of a named one if it was busier by this factor.
constexpr uint64_t kClearlyBusier = 2;

// FNV-1a: a kernel has the same id on every machine and in every implementation.
uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

KernelTotals::KernelTotals(size_t most_named, NameOf name_of)
    : most_named_(most_named), name_of_(std::move(name_of)) {}

uint32_t KernelTotals::FindSlot(uint32_t kernel) {
  if (kernel >= kMostIds) return kOther;
  if (kernel >= slot_of_id_.size()) slot_of_id_.resize(kernel + 1, kNew);
  std::string name = name_of_(kernel);
  if (name.empty()) name = kNoName;
  const uint64_t id = HashName(name);
  auto found = slot_of_name_.find(id);
  if (found == slot_of_name_.end()) {
    if (slots_.size() > kMostKernels) return slot_of_id_[kernel] = kOther;
    found = slot_of_name_.emplace(id, slots_.size()).first;
    Slot& slot = slots_.emplace_back();
    slot.id = id;
    slot.name = CleanText(name.substr(0, kMostNameBytes));
  }
  return slot_of_id_[kernel] = found->second;
}

void KernelTotals::Select(SeriesBudget* budget) {
  std::vector<Slot*> named, others;
  for (size_t i = 1; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    // Each dispatch counts as 1 ns, for kernels whose times are not known.
    const uint64_t busy_ns = slot.now.time_ns + slot.now.dispatches;
    slot.recent_ns = slot.recent_ns / 2 + (busy_ns - slot.selected_ns);
    slot.selected_ns = busy_ns;
    (slot.admission.taken() ? named : others).push_back(&slot);
  }
  const auto busier = [](const Slot* a, const Slot* b) {
    return a->recent_ns > b->recent_ns;
  };
  std::sort(named.begin(), named.end(), busier);
  const size_t most = std::min(others.size(), most_named_);
  std::partial_sort(others.begin(), others.begin() + static_cast<ptrdiff_t>(most),
                    others.end(), busier);
  for (size_t i = 0; i < most && others[i]->recent_ns > 0; ++i) {
    if (named.size() == most_named_) {
      Slot* last = named.back();
      if (others[i]->recent_ns / kClearlyBusier <= last->recent_ns) return;
      last->admission.Release(budget);
      named.pop_back();
    }
    // Two series for the values, and one for the name.
    if (!others[i]->admission.Ask(kKernelSeries, budget)) return;
    named.insert(named.begin(), others[i]);
  }
}

void KernelTotals::Attribute(Slot* slot) {
  OperationTotals& to = slot->admission.taken() ? slot->own : other_;
  to.dispatches += slot->now.dispatches - slot->taken.dispatches;
  to.time_ns += slot->now.time_ns - slot->taken.time_ns;
  slot->taken = slot->now;
}

void KernelTotals::GetTotals(std::vector<KernelSnapshot>* named,
                             OperationTotals* other) {
  for (Slot& slot : slots_) {
    Attribute(&slot);
    if (!slot.admission.taken()) continue;
    named->push_back({slot.id, slot.name, slot.own});
  }
  std::sort(named->begin(), named->end(), [](const auto& a, const auto& b) {
    return a.totals.time_ns > b.totals.time_ns;
  });
  *other = other_;
}

void KernelTotals::Release(SeriesBudget* budget) {
  for (Slot& slot : slots_) slot.admission.Release(budget);
}

}  // namespace rocattach
