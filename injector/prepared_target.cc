#include "injector/prepared_target.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace rocattach {
namespace {

// Of a function: as many as tell it from another one.
constexpr size_t kSampleBytes = 32;

}  // namespace

StepResult PreparedTarget::Set(TargetFacts facts) {
  const LoaderFunctions& functions = facts.functions;
  std::vector<Sample> samples;
  for (RemoteAddress address :
       {functions.dlopen, functions.dlsym, functions.dlerror, functions.errno_location,
        functions.mutex_trylock, functions.mutex_unlock}) {
    if (!address.is_null()) {
      samples.push_back({address, std::string(kSampleBytes, '\0')});
    }
  }
  for (Sample& sample : samples) {
    absl::Status status =
        facts.memory->Read(sample.address, sample.bytes.data(), sample.bytes.size());
    if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  samples.push_back({facts.cave.address, facts.cave.before});
  samples_ = std::move(samples);
  facts_ = std::move(facts);
  return StepOk();
}

bool PreparedTarget::StillHolds() const {
  std::vector<std::string> now;
  now.reserve(samples_.size());
  std::vector<TargetMemory::Part> parts;
  parts.reserve(samples_.size());
  for (const Sample& sample : samples_) {
    std::string& room = now.emplace_back(sample.bytes.size(), '\0');
    parts.push_back({sample.address, room.data(), room.size()});
  }
  for (size_t first = 0; first < parts.size(); first += TargetMemory::kMaxParts) {
    const size_t count = std::min(TargetMemory::kMaxParts, parts.size() - first);
    if (!facts_.memory->ReadParts(absl::MakeConstSpan(parts).subspan(first, count))
             .ok()) {
      return false;
    }
  }
  return std::equal(samples_.begin(), samples_.end(), now.begin(), now.end(),
                    [](const Sample& sample, const std::string& bytes) {
                      return sample.bytes == bytes;
                    });
}

TargetFacts PreparedTarget::Take() {
  samples_.clear();
  return std::exchange(facts_, {});
}

}  // namespace rocattach
