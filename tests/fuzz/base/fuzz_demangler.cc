// Any bytes as a symbol: bounded text, bounded time, and the same result again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "userspace/base/clock.h"
#include "userspace/base/demangler.h"

namespace rocattach {
namespace {

void Require(bool condition) {
  if (!condition) abort();
}

// Half a second is fifty times the limit: timers of processor time are imprecise.
constexpr uint64_t kFarBeyondNs = 500'000'000;

void Try(const std::string& symbol) {
  const Demangler::Limits limits;
  Demangler demangler(limits);
  const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  const std::string text = demangler.Demangle(symbol);
  Require(ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin_ns < kFarBeyondNs);
  Require(text == symbol || text.size() <= limits.text_bytes);
  Require(demangler.Demangle(symbol) == text);
}

}  // namespace
}  // namespace rocattach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  rocattach::Try(bytes);
  rocattach::Try("_Z" + bytes);
  return 0;
}
