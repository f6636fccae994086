// Any bytes as a file of DRM: the results have the form that outputs rely on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "userspace/gpus/drm_clients.h"
#include "userspace/gpus/number_file.h"

namespace {

void Require(bool condition) {
  if (!condition) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto number = rocattach::NumberIn(bytes)) {
    Require(absl::ascii_isdigit(data[0]));
  }
  const auto client = rocattach::ParseFdInfo(bytes);
  if (!client.has_value()) return 0;
  Require(client->engine_ns.size() <= rocattach::kMostEngines);
  Require(client->pci.size() <= 16);
  for (const auto& [engine, ns] : client->engine_ns) {
    Require(!engine.empty() && engine.size() <= 16);
    for (const char c : engine) {
      Require(absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
              c == '-');
    }
  }
  return 0;
}
