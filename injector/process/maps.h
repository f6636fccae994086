// /proc/PID/maps, parsed with bounds.
#ifndef ROCATTACH_INJECTOR_PROCESS_MAPS_H_
#define ROCATTACH_INJECTOR_PROCESS_MAPS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

struct LibraryFacts;

// One line of /proc/PID/maps.
struct Mapping {
  RemoteAddress start;
  RemoteAddress end;  // after the last byte
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool is_private = false;
  uint64_t offset = 0;  // in the file, bytes
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;  // 0: not a file
  // As the kernel printed it, without " (deleted)"; a newline in a name is \012. Valid
  // as long as the Maps that it came from.
  absl::string_view path;
  bool deleted = false;
  // The facts about the file, if they are known already.
  std::shared_ptr<const LibraryFacts> facts;

  bool Contains(RemoteAddress address) const {
    return start <= address && address < end;
  }
  // After the last '/', or all of it.
  absl::string_view basename() const;
  // True for a file, memfds ("/memfd:…") included; not for a pipe or name in brackets.
  bool is_file() const { return inode != 0 && !path.empty() && path[0] == '/'; }
  bool SameFile(const Mapping& other) const {
    return inode == other.inode && device_major == other.device_major &&
           device_minor == other.device_minor;
  }
};

// A snapshot of an address space, in rising order of addresses.
class Maps {
 public:
  // More text than this (about 200,000 mappings) is refused.
  static constexpr size_t kMaxText = 32u << 20;

  // Reads the maps of `pid`.
  static absl::StatusOr<Maps> Read(pid_t pid);
  // Reads only what an attach needs: executable mappings of files, shared mappings, and
  // the mapping around `around` if that is not null (a stack is not a file). Where the
  // kernel supports queries (6.11 and later), each of these mappings takes about a
  // microsecond and the others nothing, which matters for a process with thousands of
  // mappings; on older kernels this is the same as Read.
  static absl::StatusOr<Maps> ReadFiles(pid_t pid,
                                        RemoteAddress around = RemoteAddress());
  // Parses the text of a maps file. Six fixed fields, then the path to the end of the
  // line, including any blanks in it. One bad line makes the whole text invalid.
  static absl::StatusOr<Maps> Parse(std::string text);

  // Some mappings of a process, in rising order; the path of each must live as long as
  // its facts, or forever.
  static Maps Of(std::vector<Mapping> mappings);

  const std::vector<Mapping>& mappings() const { return mappings_; }
  // True if these are all mappings of the process.
  bool whole() const { return whole_; }
  // The mapping around `address`, null if there is none.
  const Mapping* Find(RemoteAddress address) const;

 private:
  friend class MapsQuery;

  std::unique_ptr<const std::string> text_;  // the paths point into it
  bool whole_ = true;
  std::vector<Mapping> mappings_;
};

// A path of a Mapping as a file name: \012 turned back into newlines.
std::string DecodeMapsPath(absl::string_view path);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_MAPS_H_
