#include "injector/register_library.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "injector/byte_source.h"
#include "injector/elf_image.h"
#include "injector/library_facts.h"
#include "injector/mapped_file.h"
#include "injector/target_checks.h"
#include "injector/target_memory.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr absl::string_view kName = "librocprofiler-register.so";

bool IsNamed(const Mapping& mapping, absl::string_view name) {
  absl::string_view rest = mapping.basename();
  return mapping.executable && mapping.is_file() && absl::ConsumePrefix(&rest, name) &&
         (rest.empty() || rest[0] == '.');
}

// The address of an exported function, if the memory there has the file's code.
absl::StatusOr<RemoteAddress> FindOne(const ElfImage& image, const FileSource& file,
                                      const TargetMemory& memory, uint64_t bias,
                                      const Mapping& mapping, const char* name) {
  const auto function = image.FindFunction(name);
  // Not NOT_FOUND, which is what files of a process that has ended are.
  if (!function.ok()) {
    return absl::UnimplementedError(
        absl::StrCat(mapping.path, " has no ", name, ": ROCm 7.1 or later is needed"));
  }
  const RemoteAddress address(function->vaddr + bias);
  LibraryFacts::Code in_file, in_memory;
  ASSIGN_OR_RETURN(const uint64_t offset, image.FileOffset(function->vaddr));
  RETURN_IF_ERROR(file.ReadAt(offset, in_file.data(), in_file.size()));
  RETURN_IF_ERROR(memory.Read(address, in_memory.data(), in_memory.size()));
  if (!mapping.Contains(address) || in_file != in_memory) {
    return absl::InvalidArgumentError(
        absl::StrCat(mapping.path, ": ", name, " in memory is not the file's"));
  }
  return address;
}

absl::Status Resolve(pid_t pid, const Mapping& mapping, RegisterLibrary* library) {
  ASSIGN_OR_RETURN(auto facts, LoadLibraryFacts(pid, mapping, nullptr));
  ASSIGN_OR_RETURN(const uint64_t bias, LoadBias(*facts, mapping));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenMappedFile(pid, mapping));
  const FileSource file(fd.get());
  ASSIGN_OR_RETURN(ElfImage image, ElfImage::Parse(file, ElfImage::Layout::kFile));
  ASSIGN_OR_RETURN(const TargetMemory memory, TargetMemory::Open(pid, pid));
  ASSIGN_OR_RETURN(library->attach, FindOne(image, file, memory, bias, mapping,
                                            "rocprofiler_register_attach"));
  ASSIGN_OR_RETURN(library->detach, FindOne(image, file, memory, bias, mapping,
                                            "rocprofiler_register_detach"));
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
