// Any bytes as a file with a GPU's Slurm jobs: the results are job numbers, only a few,
// and the job of a JSON file is the only one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "userspace/attribution/job_mappings.h"

namespace rocattach {
namespace {

void Require(bool condition) {
  if (!condition) abort();
}

void Try(absl::string_view text, uint32_t index) {
  const auto mapping = ParseJobMapping(text, index);
  if (!mapping.ok()) {
    Require(absl::IsInvalidArgument(mapping.status()));
    return;
  }
  Require(mapping->jobs.size() <= 1024 && mapping->user.size() <= 256);
  for (const std::string& job : mapping->jobs) {
    Require(!job.empty() && job.size() <= 10 && job != "0");
    for (char c : job) Require(absl::ascii_isdigit(static_cast<unsigned char>(c)));
  }
  const absl::string_view stripped = absl::StripAsciiWhitespace(text);
  if (!stripped.empty() && stripped.front() == '{') Require(mapping->jobs.size() == 1);
  if (!mapping->user.empty()) Require(mapping->jobs.size() == 1);
}

}  // namespace
}  // namespace rocattach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const uint32_t index : {0u, 3u, 200u}) rocattach::Try(bytes, index);
  return 0;
}
