// Any bytes as perf's ring of mappings, and as the kernel's list of processors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/watch/discovery/mmap_events.h"

namespace {

constexpr size_t kRingBytes = 4096;

void Require(bool condition) {
  if (!condition) abort();
}

}  // namespace

// The first two bytes are the place in the ring at which the records begin.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto cpus = rocattach::ParseCpuList(text)) {
    for (size_t i = 1; i < cpus->size(); ++i) Require((*cpus)[i - 1] < (*cpus)[i]);
  }
  uint16_t begin = 0;
  memcpy(&begin, data, sizeof(begin));
  data += sizeof(begin);
  size -= sizeof(begin);
  rocattach::MmapEvent event;
  if (rocattach::ParseMmapRecord({data, size}, &event)) {
    Require(event.path.size() < size && event.path.find('\0') == std::string::npos);
  }
  if (size > kRingBytes) size = kRingBytes;
  std::vector<uint8_t> ring(kRingBytes);
  const uint64_t tail = begin / 8 * 8;
  for (size_t i = 0; i < size; ++i) ring[(tail + i) % kRingBytes] = data[i];
  uint64_t lost = 0;
  size_t seen = 0;
  rocattach::ReadMmapRecords(
      ring, tail, tail + size,
      [&](const rocattach::MmapEvent& found) {
        ++seen;
        Require(found.path.size() < size);
      },
      &lost);
  Require(seen <= size / 8);
  return 0;
}
