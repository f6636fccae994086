#include "injector/elf/function_offset.h"

#include <errno.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_image.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {

absl::StatusOr<uint64_t> FindFunctionFileOffset(int fd, absl::string_view function) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", fd, ") failed"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError("not a regular file, so not an ELF file");
  }
  FileSource source(fd);
  ASSIGN_OR_RETURN(ElfImage image, ElfImage::Parse(source, ElfImage::Form::kFile));
  ASSIGN_OR_RETURN(ElfFunction found, image.FindFunction(function));
  return image.FileOffset(found.vaddr);
}

}  // namespace rocattach
