#include "injector/process/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "injector/fault.h"
#include "injector/process/maps_query.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Consumes fields from the front of one line; false as soon as something is not as the
// kernel prints it.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view line) : rest_(line) {}

  // A number of at least one and at most 16 digits.
  bool Hex(uint64_t* value) {
    *value = 0;
    size_t used = 0;
    for (; used < rest_.size() && used <= 16; ++used) {
      char c = rest_[used];
      uint64_t digit;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<uint64_t>(c - 'a') + 10;
      } else {
        break;
      }
      *value = *value << 4 | digit;
    }
    rest_.remove_prefix(used);
    return used >= 1 && used <= 16;
  }

  bool Decimal(uint64_t* value) {
    *value = 0;
    size_t used = 0;
    for (; used < rest_.size() && rest_[used] >= '0' && rest_[used] <= '9'; ++used) {
      uint64_t digit = static_cast<uint64_t>(rest_[used] - '0');
      if (*value > (UINT64_MAX - digit) / 10) return false;
      *value = *value * 10 + digit;
    }
    rest_.remove_prefix(used);
    return used >= 1;
  }

  bool Device(uint32_t* number) {
    uint64_t value;
    if (!Hex(&value) || value > UINT32_MAX) return false;
    *number = static_cast<uint32_t>(value);
    return true;
  }

  bool Character(char wanted) {
    if (rest_.empty() || rest_[0] != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // One permission letter: `letter` sets the flag, `other` clears it.
  bool Flag(char letter, char other, bool* flag) {
    if (rest_.empty() || (rest_[0] != letter && rest_[0] != other)) return false;
    *flag = rest_[0] == letter;
    rest_.remove_prefix(1);
    return true;
  }

  absl::string_view rest() const { return rest_; }

 private:
  absl::string_view rest_;
};

bool ParsePath(absl::string_view rest, Mapping* mapping) {
  if (rest.empty()) return true;
  if (rest[0] != ' ') return false;
  // The kernel pads with blanks up to the path; a path of a file starts with '/', so
  // leading blanks are never part of it.
  size_t begin = rest.find_first_not_of(' ');
  if (begin == absl::string_view::npos) return true;
  mapping->path = rest.substr(begin);
  mapping->deleted = absl::ConsumeSuffix(&mapping->path, " (deleted)");
  return true;
}

bool ParseLine(absl::string_view line, Mapping* mapping) {
  FieldReader fields(line);
  uint64_t start, end;
  if (!fields.Hex(&start) || !fields.Character('-') || !fields.Hex(&end) ||
      !fields.Character(' ') || start >= end) {
    return false;
  }
  mapping->start = RemoteAddress(start);
  mapping->end = RemoteAddress(end);
  return fields.Flag('r', '-', &mapping->readable) &&
         fields.Flag('w', '-', &mapping->writable) &&
         fields.Flag('x', '-', &mapping->executable) &&
         fields.Flag('p', 's', &mapping->is_private) && fields.Character(' ') &&
         fields.Hex(&mapping->offset) && fields.Character(' ') &&
         fields.Device(&mapping->device_major) && fields.Character(':') &&
         fields.Device(&mapping->device_minor) && fields.Character(' ') &&
         fields.Decimal(&mapping->inode) && ParsePath(fields.rest(), mapping);
}

}  // namespace

absl::string_view Mapping::basename() const {
  size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

absl::StatusOr<Maps> Maps::Parse(std::string text) {
  if (text.size() > kMaxText) {
    return absl::OutOfRangeError(absl::StrCat("maps of ", text.size(), " bytes"));
  }
  Maps maps;
  maps.text_ = std::make_unique<const std::string>(std::move(text));
  maps.mappings_.reserve(maps.text_->size() / 80 + 1);
  absl::string_view rest = *maps.text_;
  while (!rest.empty()) {
    size_t length = std::min(rest.find('\n'), rest.size());
    absl::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    Mapping mapping;
    if (!ParseLine(line, &mapping)) {
      return absl::InvalidArgumentError(
          absl::StrCat("not a line of a maps file: ", line.substr(0, 120)));
    }
    // The kernel walks upwards; while the target maps and unmaps between two reads, a
    // mapping may show again from a lower address. Such an entry adds nothing.
    if (!maps.mappings_.empty() && mapping.start < maps.mappings_.back().end) continue;
    maps.mappings_.push_back(mapping);
  }
  return maps;
}

absl::StatusOr<Maps> Maps::Read(pid_t pid) {
  std::string path = absl::StrCat("/proc/", pid, "/maps");
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDONLY));
  std::string text;
  size_t used = 0;
  for (;;) {
    // The kernel returns whole lines, about a page of them for each call.
    if (text.size() - used < 8192) text.resize(text.size() * 2 + 16384);
    ssize_t n = read(fd.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return ErrnoStatus(errno, absl::StrCat("read(", path, ") failed"));
    }
    if (n == 0) break;
    used += static_cast<size_t>(n);
    if (used > kMaxText) {
      return absl::OutOfRangeError(absl::StrCat(path, " is longer than ", kMaxText));
    }
  }
  text.resize(used);
  return Parse(std::move(text));
}

absl::StatusOr<Maps> Maps::ReadFiles(pid_t pid, RemoteAddress around) {
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenFile(absl::StrCat("/proc/", pid, "/maps"), O_RDONLY));
  MapsQuery query(fd.get());
  // If a query fails for any reason, the text can be read.
  if (FaultAt("maps-query") || !query.AddExecutableFiles().ok() ||
      !query.AddShared().ok() || (!around.is_null() && !query.AddAround(around).ok()))
    return Read(pid);
  return query.Finish();
}

Maps Maps::Of(std::vector<Mapping> mappings) {
  Maps maps;
  maps.whole_ = false;
  maps.mappings_ = std::move(mappings);
  return maps;
}

const Mapping* Maps::Find(RemoteAddress address) const {
  auto after = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](RemoteAddress a, const Mapping& mapping) { return a < mapping.end; });
  if (after == mappings_.end() || !after->Contains(address)) return nullptr;
  return &*after;
}

std::string DecodeMapsPath(absl::string_view path) {
  return absl::StrReplaceAll(path, {{"\\012", "\n"}});
}

}  // namespace rocattach
