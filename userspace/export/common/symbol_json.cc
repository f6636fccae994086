#include "userspace/export/common/symbol_json.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

// Bytes of the structs that the keys are members of.
constexpr uint64_t kCodeObjectBytes = 88;
constexpr uint64_t kKernelBytes = 88;
constexpr uint64_t kStorageFile = 1, kStorageMemory = 2;

// A number of "memory://PID#offset=0x7f00&size=100"; 0 if it is not there.
uint64_t UriNumber(absl::string_view uri, absl::string_view key) {
  const size_t fragment = uri.find('#');
  if (fragment == absl::string_view::npos) return 0;
  for (absl::string_view part : absl::StrSplit(uri.substr(fragment + 1), '&')) {
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&part, key) || !absl::ConsumePrefix(&part, "=")) continue;
    const bool hexadecimal = absl::ConsumePrefix(&part, "0x");
    const bool valid = hexadecimal ? absl::SimpleHexAtoi(part, &number)
                                   : absl::SimpleAtoi(part, &number);
    return valid ? number : 0;
  }
  return 0;
}

}  // namespace

bool IsInMemory(const v1::CodeObject& object) {
  return absl::StartsWith(object.uri(), "memory:");
}

void AddCodeObjectMembers(const v1::CodeObject& object, uint64_t agent,
                          JsonObject* json) {
  const bool known = object.id() != 0;
  json->Number("size", known ? kCodeObjectBytes : 0)
      .Number("code_object_id", object.id());
  // Its name until 2025, and its present one.
  for (const char* key : {"rocp_agent", "agent_id"}) {
    json->Object(key).Number("handle", agent).End();
  }
  json->Text("uri", object.uri())
      .Number("load_base", object.load_base())
      .Number("load_size", object.load_bytes())
      .Signed("load_delta", object.load_delta());
  if (!known) {
    json->Number("storage_type", 0);
  } else if (IsInMemory(object)) {
    json->Number("storage_type", kStorageMemory)
        .Number("memory_base", UriNumber(object.uri(), "offset"))
        .Number("memory_size", UriNumber(object.uri(), "size"));
  } else {
    // The number of a file that was open in the process.
    json->Number("storage_type", kStorageFile).Signed("storage_file", -1);
  }
}

void AddKernelMembers(const ExportKernel& known, JsonObject* json) {
  const v1::Kernel& kernel = known.kernel;
  const std::string& name = known.display_name;
  json->Number("size", kernel.id() == 0 ? 0 : kKernelBytes)
      .Number("kernel_id", kernel.id())
      .Number("code_object_id", kernel.code_object_id())
      .Text("kernel_name", kernel.name())
      .Number("kernel_object", kernel.kernel_object())
      .Number("kernarg_segment_size", kernel.kernarg_bytes())
      .Number("kernarg_segment_alignment", kernel.kernarg_alignment())
      .Number("group_segment_size", kernel.lds_bytes())
      .Number("private_segment_size", kernel.scratch_bytes())
      .Number("sgpr_count", kernel.sgprs())
      .Number("arch_vgpr_count", kernel.arch_vgprs())
      .Number("accum_vgpr_count", kernel.accum_vgprs())
      .Number("kernel_code_entry_byte_offset", 0);
  json->Object("kernel_address").Number("handle", 0).End();
  json->Text("formatted_kernel_name", name)
      .Text("demangled_kernel_name", name)
      .Text("truncated_kernel_name", name.substr(0, name.find('(')));
}

}  // namespace rocattach
