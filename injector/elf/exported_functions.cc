#include "injector/elf/exported_functions.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_image.h"
#include "injector/elf/library_facts.h"
#include "injector/elf/mapped_file.h"
#include "injector/process/target_memory.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::StatusOr<RemoteAddress> FindOne(const ElfImage& image, const FileSource& file,
                                      const TargetMemory& memory, uint64_t bias,
                                      const Mapping& mapping, const char* name) {
  const auto function = image.FindFunction(name);
  if (!function.ok()) return RemoteAddress();
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

}  // namespace

absl::StatusOr<std::vector<RemoteAddress>> FindExportedFunctions(
    pid_t pid, const Mapping& mapping, std::initializer_list<const char*> names) {
  ASSIGN_OR_RETURN(auto facts, LoadLibraryFacts(pid, mapping, nullptr));
  ASSIGN_OR_RETURN(const uint64_t bias, LoadBias(*facts, mapping));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenMappedFile(pid, mapping));
  const FileSource file(fd.get());
  ASSIGN_OR_RETURN(ElfImage image, ElfImage::Parse(file, ElfImage::Form::kFile));
  ASSIGN_OR_RETURN(const TargetMemory memory, TargetMemory::Open(pid, pid));
  std::vector<RemoteAddress> functions;
  for (const char* name : names) {
    ASSIGN_OR_RETURN(RemoteAddress address,
                     FindOne(image, file, memory, bias, mapping, name));
    functions.push_back(address);
  }
  return functions;
}

}  // namespace rocattach
