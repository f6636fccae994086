#include "injector/elf/elf_needs.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/elf/elf_image.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kMaxString = 1024;
constexpr size_t kMaxNeeded = 1024;
constexpr size_t kMaxVersions = 4096;

// The entries of the dynamic section that matter here.
struct Dynamic {
  uint64_t strings = 0;  // linked address
  uint64_t strings_bytes = 0;
  uint64_t soname = 0;
  bool has_soname = false;
  std::optional<uint64_t> rpath, runpath;
  std::vector<uint64_t> needed;
  uint64_t version_needs = 0;  // linked address, 0: none
  uint64_t version_needs_count = 0;
};

class NeedsReader {
 public:
  NeedsReader(const ByteSource& file, const ElfImage& image)
      : file_(file), image_(image) {}

  absl::StatusOr<ElfNeeds> Read() {
    RETURN_IF_ERROR(ReadDynamic());
    ElfNeeds needs;
    if (dynamic_.has_soname) {
      ASSIGN_OR_RETURN(needs.soname, String(dynamic_.soname));
    }
    for (uint64_t offset : dynamic_.needed) {
      ASSIGN_OR_RETURN(std::string name, String(offset));
      needs.needed.push_back(std::move(name));
    }
    if (dynamic_.rpath.has_value()) {
      ASSIGN_OR_RETURN(needs.rpath, String(*dynamic_.rpath));
    }
    if (dynamic_.runpath.has_value()) {
      ASSIGN_OR_RETURN(needs.runpath, String(*dynamic_.runpath));
    }
    RETURN_IF_ERROR(ReadVersions(&needs.versions));
    return needs;
  }

 private:
  absl::Status ReadDynamic() {
    Elf64_Ehdr header;
    RETURN_IF_ERROR(file_.ReadAt(0, &header, sizeof(header)));
    // The image has been parsed, so these are within its limits.
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment;
      RETURN_IF_ERROR(file_.ReadAt(header.e_phoff + i * sizeof(segment), &segment,
                                   sizeof(segment)));
      if (segment.p_type != PT_DYNAMIC) continue;
      uint64_t count = std::min<uint64_t>(segment.p_filesz / sizeof(Elf64_Dyn),
                                          ElfImage::kMaxDynamicEntries);
      for (uint64_t n = 0; n < count; ++n) {
        Elf64_Dyn entry;
        RETURN_IF_ERROR(
            file_.ReadAt(segment.p_offset + n * sizeof(entry), &entry, sizeof(entry)));
        if (entry.d_tag == DT_NULL) return absl::OkStatus();
        RETURN_IF_ERROR(Store(entry));
      }
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("no dynamic section");
  }

  absl::Status Store(const Elf64_Dyn& entry) {
    const uint64_t value = entry.d_un.d_val;
    switch (entry.d_tag) {
      case DT_STRTAB:
        dynamic_.strings = value;
        break;
      case DT_STRSZ:
        dynamic_.strings_bytes = value;
        break;
      case DT_SONAME:
        dynamic_.soname = value;
        dynamic_.has_soname = true;
        break;
      case DT_RPATH:
        dynamic_.rpath = value;
        break;
      case DT_RUNPATH:
        dynamic_.runpath = value;
        break;
      case DT_NEEDED:
        if (dynamic_.needed.size() >= kMaxNeeded) {
          return absl::OutOfRangeError("too many needed libraries");
        }
        dynamic_.needed.push_back(value);
        break;
      case DT_VERNEED:
        dynamic_.version_needs = value;
        break;
      case DT_VERNEEDNUM:
        dynamic_.version_needs_count = value;
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> String(uint64_t offset) const {
    if (offset >= dynamic_.strings_bytes) {
      return absl::OutOfRangeError(
          absl::StrCat("string ", offset, " is past the end of the table"));
    }
    ASSIGN_OR_RETURN(uint64_t position, image_.FileOffset(dynamic_.strings));
    size_t bytes = static_cast<size_t>(
        std::min<uint64_t>(kMaxString, dynamic_.strings_bytes - offset));
    char text[kMaxString];
    // The table may be the last thing in the file: read up to its end, not beyond.
    if (position > UINT64_MAX - offset) return absl::OutOfRangeError("string offset");
    RETURN_IF_ERROR(file_.ReadAt(position + offset, text, bytes));
    const size_t length = strnlen(text, bytes);
    if (length == bytes) {
      return absl::OutOfRangeError(absl::StrCat("string ", offset, " has no end"));
    }
    return std::string(text, length);
  }

  // Verneed records, each with a chain of Vernaux; both lists go forward only, so that
  // a loop in them ends.
  absl::Status ReadVersions(std::vector<std::string>* versions) const {
    if (dynamic_.version_needs == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(uint64_t position, image_.FileOffset(dynamic_.version_needs));
    size_t seen = 0;
    for (uint64_t i = 0; i < dynamic_.version_needs_count; ++i) {
      Elf64_Verneed need;
      RETURN_IF_ERROR(file_.ReadAt(position, &need, sizeof(need)));
      uint64_t at = position + need.vn_aux;
      for (unsigned n = 0; n < need.vn_cnt; ++n) {
        if (++seen > kMaxVersions) return absl::OutOfRangeError("too many versions");
        Elf64_Vernaux aux;
        RETURN_IF_ERROR(file_.ReadAt(at, &aux, sizeof(aux)));
        ASSIGN_OR_RETURN(std::string name, String(aux.vna_name));
        if (std::find(versions->begin(), versions->end(), name) == versions->end()) {
          versions->push_back(std::move(name));
        }
        if (aux.vna_next == 0) break;
        at += aux.vna_next;
      }
      if (need.vn_next == 0 || ++seen > kMaxVersions) break;
      position += need.vn_next;
    }
    return absl::OkStatus();
  }

  const ByteSource& file_;
  const ElfImage& image_;
  Dynamic dynamic_;
};

// "GLIBC_2.2.5" as {2, 2, 5}; empty for GLIBC_PRIVATE, GLIBC_ABI_… and other names.
std::vector<int> VersionNumbers(absl::string_view version) {
  std::vector<int> numbers;
  if (!absl::ConsumePrefix(&version, "GLIBC_")) return numbers;
  for (absl::string_view part : absl::StrSplit(version, '.')) {
    int number;
    if (!absl::SimpleAtoi(part, &number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<ElfNeeds> ReadElfNeeds(const ByteSource& file) {
  ASSIGN_OR_RETURN(ElfImage image, ElfImage::Parse(file, ElfImage::Form::kFile));
  return NeedsReader(file, image).Read();
}

absl::StatusOr<ElfNeeds> ReadElfNeeds(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  return ReadElfNeeds(FileSource(fd.get()));
}

bool NewerGlibcVersion(absl::string_view version, absl::string_view limit) {
  return VersionNumbers(version) > VersionNumbers(limit);
}

std::string HighestGlibcVersion(const ElfNeeds& needs) {
  std::string highest;
  for (const std::string& version : needs.versions) {
    if (VersionNumbers(version).empty()) continue;
    if (highest.empty() || NewerGlibcVersion(version, highest)) highest = version;
  }
  return highest;
}

}  // namespace rocattach
