// Any text as a maps file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "injector/process/maps.h"
#include "injector/process/target_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto maps =
      rocattach::Maps::Parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!maps.ok()) return 0;
  rocattach::RemoteAddress last;
  for (const rocattach::Mapping& mapping : maps->mappings()) {
    if (mapping.start < last || mapping.end <= mapping.start) abort();
    last = mapping.end;
    if (maps->Find(mapping.start) != &mapping) abort();
    if (maps->Find(mapping.end - 1) != &mapping) abort();
    if (mapping.path.size() > size || mapping.basename().size() > mapping.path.size()) {
      abort();
    }
    (void)rocattach::DecodeMapsPath(mapping.path);
  }
  (void)rocattach::CheckMappings(*maps, "/opt/collector.so", false);
  return 0;
}
