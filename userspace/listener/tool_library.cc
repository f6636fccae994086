#include "userspace/listener/tool_library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_image.h"
#include "injector/elf/elf_needs.h"
#include "injector/elf/mapped_file.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_status.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/status_macros.h"
#include "userspace/listener/library_needs.h"
#include "userspace/watch/discovery/library_search.h"

namespace rocattach {
namespace {

constexpr const char* kToolFunctions[] = {"rocprofiler_configure",
                                          "rocprofiler_configure_attach"};
constexpr const char* kOurs[] = {"librocattach-collector.so", "librocattach.so",
                                 "librocprofiler-sdk-rocattach.so",
                                 "librocprofv3-attach.so"};

absl::Status Invalid(const std::string& library, pid_t pid, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tool library ", library, " as process ", pid, " sees it: ", what));
}

bool IsOurs(absl::string_view library) {
  const absl::string_view name = library.substr(library.rfind('/') + 1);
  for (const char* ours : kOurs) {
    absl::string_view rest = name;
    if (absl::ConsumePrefix(&rest, ours) && (rest.empty() || rest[0] == '.')) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::string> PathOf(pid_t pid, const std::string& library,
                                   const std::string& sdk) {
  if (library.find('/') == std::string::npos) {
    auto environment = ReadEnvironment(pid);
    std::string found = FindLibrary(absl::StrCat("/proc/", pid, "/root"), sdk,
                                    environment.value_or(""), {library});
    if (!found.empty()) return found;
    return Invalid(library, pid,
                   "its loader would not find it; give the path, or set "
                   "LD_LIBRARY_PATH for the process");
  }
  if (library[0] == '/') return library;
  // The process may change its directory at any time.
  char directory[4096];
  const ssize_t bytes = readlink(absl::StrCat("/proc/", pid, "/cwd").c_str(), directory,
                                 sizeof(directory));
  if (bytes <= 0) return Invalid(library, pid, "its working directory is not known");
  return absl::StrCat(absl::string_view(directory, static_cast<size_t>(bytes)), "/",
                      library);
}

absl::Status CheckElf(int fd) {
  Elf64_Ehdr header;
  if (pread(fd, &header, sizeof(header), 0) != ssize_t{sizeof(header)} ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("not an ELF file");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 ||
      header.e_type != ET_DYN) {
    return absl::InvalidArgumentError("not a shared object for x86-64");
  }
  const FileSource file(fd);
  RETURN_IF_ERROR(ReadElfNeeds(file).status());
  ASSIGN_OR_RETURN(const ElfImage image, ElfImage::Parse(file, ElfImage::Form::kFile));
  struct stat info;
  if (fstat(fd, &info) != 0) return absl::InvalidArgumentError(strerror(errno));
  // The loader maps the segments; access to a part that is cut off would be SIGBUS.
  for (const ElfSegment& segment : image.segments()) {
    const auto bytes = static_cast<uint64_t>(info.st_size);
    if (segment.offset > bytes || segment.filesz > bytes - segment.offset) {
      return absl::InvalidArgumentError("the file is cut off");
    }
  }
  for (const char* name : kToolFunctions) {
    if (absl::IsNotFound(image.FindFunction(name).status())) {
      return absl::InvalidArgumentError(
          absl::StrCat("it is no tool that can be attached: it has no ", name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ForeignTools(absl::string_view list) {
  std::vector<std::string> tools;
  for (absl::string_view tool : absl::StrSplit(list, ':', absl::SkipEmpty())) {
    if (!IsOurs(tool)) tools.emplace_back(tool);
  }
  return tools;
}

absl::StatusOr<std::string> FindToolLibrary(pid_t pid, const std::string& library,
                                            const std::string& sdk) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(pid, library, sdk));
  ASSIGN_OR_RETURN(const ThreadStatus status, ReadThreadStatus(pid, pid));
  StepResult usable = CheckCollector(pid, status, path, FileIdentity{});
  if (!usable.ok()) {
    // Without the remedy, which is about the collector.
    const std::string& detail = usable.failure().detail;
    return Invalid(path, pid, detail.substr(0, detail.find("; install")));
  }
  ASSIGN_OR_RETURN(UniqueFd root, OpenRootOf(pid));
  auto file = OpenRegularInRoot(root.get(), path);
  if (!file.ok()) return Invalid(path, pid, file.status().message());
  if (absl::Status elf = CheckElf(file->get()); !elf.ok()) {
    return Invalid(path, pid, elf.message());
  }
  if (absl::Status needs = CheckLibraryNeeds(pid, path); !needs.ok()) {
    return Invalid(path, pid, needs.message());
  }
  return path;
}

bool AttachesOneTool(pid_t pid, const std::string& sdk) {
  auto root = OpenRootOf(pid);
  if (!root.ok()) return true;
  auto fd = OpenRegularInRoot(root->get(), sdk);
  if (!fd.ok()) return true;
  const FileSource file(fd->get());
  auto image = ElfImage::Parse(file, ElfImage::Form::kFile);
  return !image.ok() ||
         !absl::IsNotFound(
             image->FindFunction("rocprofiler_load_attachment_tool").status());
}

}  // namespace rocattach
