// Demangles C++ symbols at a bounded cost.
#ifndef ROCATTACH_USERSPACE_BASE_DEMANGLER_H_
#define ROCATTACH_USERSPACE_BASE_DEMANGLER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace rocattach {

// Names come from untrusted programs. A symbol of a few hundred bytes can expand to
// gigabytes of text, or keep a demangler busy forever without any output. So text and
// CPU time are limited for each name; a name beyond either limit stays mangled.
// Demangling uses no memory but that of the text.
//
// Not thread-safe. Use one Demangler per process: when its names have wasted
// `wasted_ns`, only that process's names stay mangled.
class Demangler {
 public:
  struct Limits {
    size_t symbol_bytes = 8192;
    size_t text_bytes = 64 << 10;
    // CPU time of one name. Real ones take some 10 us.
    uint64_t name_ns = 10'000'000;
    // CPU time of all names that were abandoned.
    uint64_t wasted_ns = 50'000'000;
    // Size of the cache of names.
    size_t cache_bytes = 1 << 20;
  };

  // For names that are requested only once.
  static Limits WithoutCache() {
    Limits limits;
    limits.cache_bytes = 0;
    return limits;
  }

  Demangler() : Demangler(Limits()) {}
  explicit Demangler(const Limits& limits) : limits_(limits) {}

  // Anything that is not a C++ symbol or exceeds a limit is returned unchanged.
  std::string Demangle(absl::string_view symbol);

  // Number of names that were abandoned at a limit, or no longer tried.
  uint64_t given_up() const { return given_up_; }

 private:
  bool Compute(const std::string& symbol, std::string* text);

  const Limits limits_;
  uint64_t wasted_ns_ = 0;
  uint64_t given_up_ = 0;
  size_t cached_bytes_ = 0;
  absl::flat_hash_map<std::string, std::string> cache_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DEMANGLER_H_
