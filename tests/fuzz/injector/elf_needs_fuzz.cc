// Any bytes as a library whose required libraries and versions are read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "injector/elf/byte_source.h"
#include "injector/elf/elf_needs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rocattach::BufferSource source(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  auto needs = rocattach::ReadElfNeeds(source);
  if (!needs.ok()) return 0;
  // The result is bounded, whatever the file contains.
  if (needs->needed.size() > 1024 || needs->versions.size() > 4096) abort();
  std::string highest = rocattach::HighestGlibcVersion(*needs);
  for (const std::string& version : needs->versions) {
    if (rocattach::NewerGlibcVersion(version, highest)) abort();
  }
  return 0;
}
