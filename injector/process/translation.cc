#include "injector/process/translation.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_image.h"
#include "injector/elf/function_offset.h"
#include "injector/elf/mapped_file.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

constexpr size_t kMostAuxvBytes = 8192;

// Address at which the kernel has mapped the program's dynamic loader, 0 if it has
// none. Empty if it cannot be read, or for a 32-bit program.
std::optional<uint64_t> ReadLoaderBase(pid_t pid) {
  auto text = ReadFile(absl::StrCat("/proc/", pid, "/auxv"), kMostAuxvBytes);
  if (!text.ok()) return std::nullopt;
  Elf64_auxv_t entry;
  for (size_t at = 0; at + sizeof(entry) <= text->size(); at += sizeof(entry)) {
    std::memcpy(&entry, text->data() + at, sizeof(entry));
    if (entry.a_type > UINT16_MAX) break;
    if (entry.a_type == AT_BASE) return entry.a_un.a_val;
  }
  return std::nullopt;
}

// A dynamic loader can be run as a program, and then loads another. It is recognized by
// its function for thread-local storage, which it provides in glibc and in musl.
bool IsLoader(int program) {
  return FindFunctionFileOffset(program, "__tls_get_addr").ok();
}

// The parts of a file that a process has mapped.
struct MappedParts {
  const Mapping* data = nullptr;  // a writable part, not the file's beginning
  bool executable = false;
};

// True if a loader would map a part of the file executable.
bool HasCode(pid_t pid, const Mapping& mapping) {
  auto file = OpenMappedFile(pid, mapping);
  if (!file.ok()) return false;
  FileSource source(file->get());
  auto image = ElfImage::Parse(source, ElfImage::Form::kFile);
  return image.ok() &&
         std::any_of(image->segments().begin(), image->segments().end(),
                     [](const ElfSegment& segment) { return segment.executable; });
}

// The path of a file that has been loaded without its code; empty: none.
std::string LoadedWithoutCode(pid_t pid, const Maps& maps) {
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, MappedParts> files;
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.is_file()) continue;
    MappedParts& parts =
        files[{mapping.device_major, mapping.device_minor, mapping.inode}];
    parts.executable |= mapping.executable;
    if (mapping.is_private && mapping.writable && mapping.offset != 0) {
      parts.data = &mapping;
    }
  }
  for (const auto& [file, parts] : files) {
    if (parts.data != nullptr && !parts.executable && HasCode(pid, *parts.data)) {
      return DecodeMapsPath(parts.data->path);
    }
  }
  return "";
}

}  // namespace

bool LacksLoader(pid_t pid) {
  if (ReadLoaderBase(pid) != uint64_t{0}) return false;
  auto program = OpenFile(absl::StrCat("/proc/", pid, "/exe"), O_RDONLY);
  return program.ok() && !IsLoader(program->get());
}

std::string HowTranslated(pid_t pid, const Maps& maps) {
  if (LacksLoader(pid)) {
    return absl::StrCat(
        "the process loads libraries without a dynamic loader, as Valgrind and other "
        "translators do: its program, ",
        ReadExecutable(pid).value_or("unknown"), ", is linked statically");
  }
  if (LoadedWithoutCode(pid, maps).empty()) return "";
  // Mappings are not read at one instant: of a file that a native loader was mapping,
  // the data may have been seen and the code not yet. If the data has been seen, the
  // next reading sees the code.
  auto again = Maps::Read(pid);
  if (!again.ok()) return "";
  const std::string path = LoadedWithoutCode(pid, *again);
  if (path.empty()) return "";
  return absl::StrCat("the process has loaded ", path,
                      " without the right to execute it, as qemu-user and other "
                      "translators do");
}

}  // namespace rocattach
