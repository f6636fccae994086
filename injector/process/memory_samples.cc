#include "injector/process/memory_samples.h"

#include <algorithm>
#include <cstddef>

#include "absl/types/span.h"

namespace rocattach {
namespace {

// Bytes of a function: enough to tell it from another one.
constexpr size_t kSampleBytes = 32;

}  // namespace

absl::Status MemorySamples::AddFunctions(const LoaderFunctions& functions,
                                         const TargetMemory& memory) {
  for (RemoteAddress address :
       {functions.dlopen, functions.dlsym, functions.dlerror, functions.errno_location,
        functions.mutex_trylock, functions.mutex_unlock}) {
    if (address.is_null()) continue;
    std::string bytes(kSampleBytes, '\0');
    absl::Status status = memory.Read(address, bytes.data(), bytes.size());
    if (!status.ok()) return status;
    Add(address, std::move(bytes));
  }
  return absl::OkStatus();
}

bool MemorySamples::StillHold(const TargetMemory& memory) const {
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
    if (!memory.ReadParts(absl::MakeConstSpan(parts).subspan(first, count)).ok()) {
      return false;
    }
  }
  return std::equal(samples_.begin(), samples_.end(), now.begin(), now.end(),
                    [](const Sample& sample, const std::string& bytes) {
                      return sample.bytes == bytes;
                    });
}

}  // namespace rocattach
