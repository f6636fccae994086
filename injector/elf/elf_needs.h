// A library's dependencies: its needed libraries and the versions of their symbols.
#ifndef ROCATTACH_INJECTOR_ELF_ELF_NEEDS_H_
#define ROCATTACH_INJECTOR_ELF_ELF_NEEDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/elf/byte_source.h"

namespace rocattach {

struct ElfNeeds {
  std::string soname;                 // DT_SONAME, empty if there is none
  std::vector<std::string> needed;    // DT_NEEDED, in order
  std::string rpath, runpath;         // DT_RPATH, DT_RUNPATH; empty if there is none
  std::vector<std::string> versions;  // "GLIBC_2.17", … as imported, each once
};

// Reads the dynamic section of an untrusted x86-64 ELF file. Errors as for
// ElfImage::Parse.
absl::StatusOr<ElfNeeds> ReadElfNeeds(const ByteSource& file);
absl::StatusOr<ElfNeeds> ReadElfNeeds(const std::string& path);

// The highest GLIBC_x.y[.z] among the imported versions; empty if there is none.
std::string HighestGlibcVersion(const ElfNeeds& needs);

// True if `version` ("GLIBC_2.17") is newer than `limit`, compared part by part.
bool NewerGlibcVersion(absl::string_view version, absl::string_view limit);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_ELF_NEEDS_H_
