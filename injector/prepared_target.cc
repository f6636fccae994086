#include "injector/prepared_target.h"

#include <algorithm>
#include <cstddef>

#include "injector/failure.h"

namespace rocattach {
namespace {

// Of a function: as many as tell it from another one.
constexpr size_t kSampleBytes = 32;

}  // namespace

StepResult PreparedTarget::TakeSamples() {
  std::vector<Sample> taken;
  for (RemoteAddress address :
       {functions.dlopen, functions.dlsym, functions.dlerror, functions.errno_location,
        functions.mutex_trylock, functions.mutex_unlock}) {
    if (!address.is_null()) taken.push_back({address, std::string(kSampleBytes, '\0')});
  }
  for (Sample& sample : taken) {
    absl::Status status =
        memory->Read(sample.address, sample.bytes.data(), sample.bytes.size());
    if (!status.ok()) return FailureFromStatus(status, AttachReason::kMemoryAccess);
  }
  taken.push_back({cave.address, cave.before});
  samples = std::move(taken);
  return StepOk();
}

bool PreparedTarget::StillHolds() const {
  std::vector<std::string> now;
  now.reserve(samples.size());
  std::vector<TargetMemory::Part> parts;
  parts.reserve(samples.size());
  for (const Sample& sample : samples) {
    std::string& room = now.emplace_back(sample.bytes.size(), '\0');
    parts.push_back({sample.address, room.data(), room.size()});
  }
  for (size_t first = 0; first < parts.size(); first += TargetMemory::kMaxParts) {
    const size_t count = std::min(TargetMemory::kMaxParts, parts.size() - first);
    if (!memory->ReadParts(absl::MakeConstSpan(parts).subspan(first, count)).ok()) {
      return false;
    }
  }
  return std::equal(samples.begin(), samples.end(), now.begin(), now.end(),
                    [](const Sample& sample, const std::string& bytes) {
                      return sample.bytes == bytes;
                    });
}

}  // namespace rocattach
