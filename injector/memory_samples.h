// Bytes of a target as they were, to tell later whether they still are.
#ifndef ROCATTACH_INJECTOR_MEMORY_SAMPLES_H_
#define ROCATTACH_INJECTOR_MEMORY_SAMPLES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "injector/remote_address.h"
#include "injector/symbol_lookup.h"
#include "injector/target_memory.h"

namespace rocattach {

class MemorySamples {
 public:
  bool empty() const { return samples_.empty(); }
  void clear() { samples_.clear(); }
  // What is there now, or should be.
  void Add(RemoteAddress address, std::string bytes) {
    samples_.push_back({address, std::move(bytes)});
  }
  // The beginnings of the functions, read now.
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

#endif  // ROCATTACH_INJECTOR_MEMORY_SAMPLES_H_
