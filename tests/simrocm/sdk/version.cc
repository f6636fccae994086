#include "tests/simrocm/sdk/version.h"

#include <cstdio>
#include <cstdlib>

#include "tests/simrocm/environment.h"

namespace simrocm::sdk {
namespace {

Version Read() {
  const std::string text = GetString("SIMROCM_SDK_VERSION");
  if (text.empty()) return {1, 3, 5};
  Version version = {};
  char more = 0;
  if (sscanf(text.c_str(), "%u.%u.%u%c", &version.major, &version.minor, &version.patch,
             &more) != 3) {
    fprintf(stderr, "simrocm: SIMROCM_SDK_VERSION=%s is no version\n", text.c_str());
    abort();
  }
  return version;
}

}  // namespace

const Version& TheVersion() {
  static const Version version = Read();
  return version;
}

const std::string& TheVersionText() {
  static const auto* text = new std::string(
      std::to_string(TheVersion().major) + "." + std::to_string(TheVersion().minor) +
      "." + std::to_string(TheVersion().patch) + " (simulated)");
  return *text;
}

}  // namespace simrocm::sdk
