// Samples of a target's memory, to tell later whether it is still the same.
#ifndef ROCATTACH_INJECTOR_PROCESS_MEMORY_SAMPLES_H_
#define ROCATTACH_INJECTOR_PROCESS_MEMORY_SAMPLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

class MemorySamples {
 public:
  bool empty() const { return samples_.empty(); }
  void clear() { samples_.clear(); }
  // Adds the bytes that are there now, or that should be there.
  void Add(RemoteAddress address, std::string bytes) {
    samples_.push_back({address, std::move(bytes)});
  }
  // Adds the beginnings of the functions, read now.
  absl::Status AddFunctions(const LoaderFunctions& functions,
                            const TargetMemory& memory);
  // False if any of them differs or cannot be read.
  bool StillHold(const TargetMemory& memory) const;

 private:
  struct Sample {
    RemoteAddress address;
    std::string bytes;
  };
  std::vector<Sample> samples_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_MEMORY_SAMPLES_H_
