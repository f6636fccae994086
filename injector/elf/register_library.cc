#include "injector/elf/register_library.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "injector/elf/exported_functions.h"
#include "injector/process/target_checks.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr absl::string_view kName = "librocprofiler-register.so";

bool IsNamed(const Mapping& mapping, absl::string_view name) {
  absl::string_view rest = mapping.basename();
  return mapping.executable && mapping.is_file() && absl::ConsumePrefix(&rest, name) &&
         (rest.empty() || rest[0] == '.');
}

absl::Status Resolve(pid_t pid, const Mapping& mapping, RegisterLibrary* library) {
  ASSIGN_OR_RETURN(const auto functions,
                   FindExportedFunctions(
                       pid, mapping,
                       {"rocprofiler_register_attach", "rocprofiler_register_detach"}));
  if (functions[0].is_null() || functions[1].is_null()) {
    library->cannot_attach = true;
    // Not NOT_FOUND, which stands for files of a process that has ended.
    return absl::UnimplementedError(
        absl::StrCat("the rocprofiler-register of process ", pid, " (", mapping.path,
                     ") is too old for attaching tool libraries: it has no "
                     "rocprofiler_register_attach() or no "
                     "rocprofiler_register_detach(). ROCm 7.1 or later is needed"));
  }
  library->attach = functions[0];
  library->detach = functions[1];
  library->path = DecodeMapsPath(mapping.path);
  library->code_begin = mapping.start;
  library->code_end = mapping.end;
  return absl::OkStatus();
}

}  // namespace

const Mapping* FindMappedLibrary(const Maps& maps, absl::string_view name) {
  for (const Mapping& mapping : maps.mappings()) {
    if (IsNamed(mapping, name)) return &mapping;
  }
  return nullptr;
}

StepResult FindRegisterLibrary(pid_t pid, const Maps& maps, RegisterLibrary* library) {
  if (maps.mappings().empty()) {
    return AttachFailure{AttachReason::kTargetExited, 0,
                         absl::StrCat("process ", pid, " has ended")};
  }
  const Mapping* found = nullptr;
  for (const Mapping& mapping : maps.mappings()) {
    if (!IsNamed(mapping, kName)) continue;
    if (found == nullptr) {
      found = &mapping;
    } else if (!mapping.SameFile(*found) ||
               mapping.start - mapping.offset != found->start - found->offset) {
      return AttachFailure{
          AttachReason::kUnsupported, 0,
          absl::StrCat("process ", pid, " has loaded rocprofiler-register twice, ",
                       found->path, " and ", mapping.path,
                       "; which one its runtime uses is not known")};
    }
  }
  if (found == nullptr) {
    return AttachFailure{
        AttachReason::kUnsupported, 0,
        absl::StrCat("process ", pid, " has not loaded ", kName,
                     ": its runtime is older than ROCm 6.2, or built without it")};
  }
  absl::Status status = Resolve(pid, *found, library);
  if (status.ok()) return StepOk();
  const AttachReason reason = absl::IsUnimplemented(status) ? AttachReason::kUnsupported
                                                            : AttachReason::kBadElf;
  return UnlessEnded(pid, pid, FailureFromStatus(status, reason));
}

}  // namespace rocattach
