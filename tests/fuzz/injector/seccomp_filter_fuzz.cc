// Any bytes as a seccomp filter: the interpreter ends, within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "injector/process/seccomp_filter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rocattach::SeccompProgram program(size / sizeof(sock_filter));
  if (!program.empty()) {
    std::memcpy(program.data(), data, program.size() * sizeof(sock_filter));
  }
  seccomp_data call = {};
  if (size > 0) call.nr = data[size - 1];
  size_t steps = program.size() + 1;
  const auto action = rocattach::RunSeccompProgram(program, call, &steps);
  // Jumps only lead forward, so no program takes more steps than it has instructions.
  if (absl::IsResourceExhausted(action.status()) || steps > program.size() + 1) abort();
  (void)rocattach::CheckSeccompFilters({program}, rocattach::StubKind::kByDescriptor);
  return 0;
}
