// Queries to the kernel about single mappings of a target (PROCMAP_QUERY).
#ifndef ROCATTACH_INJECTOR_PROCESS_MAPS_QUERY_H_
#define ROCATTACH_INJECTOR_PROCESS_MAPS_QUERY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "injector/process/maps.h"

namespace rocattach {

// Collects mappings by queries on one open /proc/PID/maps. Does not own the descriptor.
class MapsQuery {
 public:
  // More mappings than this are not collected; the kernel allows 65,530 by default.
  static constexpr size_t kMaxMappings = 1 << 17;

  explicit MapsQuery(int fd) : fd_(fd) {}

  // UNIMPLEMENTED: the kernel has no such queries (before 6.11).
  absl::Status AddExecutableFiles();
  absl::Status AddShared();
  // NOT_FOUND: nothing is mapped there.
  absl::Status AddAround(RemoteAddress address);

  // The collected mappings, in rising order, each one once.
  Maps Finish();

 private:
  absl::Status AddAll(uint64_t flags);
  // Adds the mapping at or (with the flag for it) after `address`; NOT_FOUND: no more.
  absl::Status Query(uint64_t address, uint64_t flags, uint64_t* end);

  struct Name {
    size_t begin;
    size_t length;
  };

  int fd_;
  std::string names_;
  std::vector<Mapping> mappings_;
  std::vector<Name> name_of_;  // with the index of the mapping
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_MAPS_QUERY_H_
