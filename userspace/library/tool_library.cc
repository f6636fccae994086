#include "userspace/library/tool_library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::Status Invalid(const std::string& library, pid_t pid, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tool library ", library, " as process ", pid, " sees it: ", what));
}

}  // namespace

absl::Status CheckToolLibrary(pid_t pid, const std::string& library) {
  if (library.find('/') == std::string::npos) return absl::OkStatus();
  const bool absolute = library[0] == '/';
  ASSIGN_OR_RETURN(UniqueFd base,
                   OpenFile(absl::StrCat("/proc/", pid, absolute ? "/root" : "/cwd"),
                            O_PATH | O_DIRECTORY));
  // Links in a container lead to files of that container. Waiting for the other side of
  // a named pipe would never end.
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = absolute ? RESOLVE_IN_ROOT : 0;
  UniqueFd file(static_cast<int>(
      syscall(SYS_openat2, base.get(), library.c_str(), &how, sizeof(how))));
  if (!file.valid()) return Invalid(library, pid, strerror(errno));
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Invalid(library, pid, "not a regular file");
  }
  Elf64_Ehdr header;
  if (pread(file.get(), &header, sizeof(header), 0) != ssize_t{sizeof(header)} ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64 ||
      header.e_type != ET_DYN) {
    return Invalid(library, pid, "not a shared object for x86-64");
  }
  return absl::OkStatus();
}

}  // namespace rocattach
