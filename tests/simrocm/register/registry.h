// The registry: names that are allowed, instances, recorded tables.
#ifndef ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTRY_H_
#define ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/collector/sdk/register_abi.h"

namespace simrocm {

// A library that may register.
struct KnownLibrary {
  const char* name;
  const char* file_pattern;  // extended regular expression, for secure mode
};

// The known library of this name and its index; nullptr if there is none.
const KnownLibrary* FindKnownLibrary(const char* name, unsigned* index);

// Maximum registrations of one library: all known libraries share 64 bits.
unsigned MaxInstances();

// True if `import_func` lies in a mapped file whose name matches the library's pattern.
bool ImportFunctionIsGenuine(const KnownLibrary& library,
                             rocattach_register_import_fn import_func);

struct Registration {
  std::string name;
  uint32_t lib_version = 0;
  uint64_t instance = 0;
  std::vector<void*> tables;
  bool propagated = false;  // passed to the SDK
};

// Not thread-safe; the caller holds the library's lock.
class Registry {
 public:
  // Checks the number of instances and records the tables. "rocattach" is kept first,
  // so that the SDK gets it before the tables whose queues it tracks.
  rocattach_register_status Add(unsigned index, const char* name, uint32_t lib_version,
                                void** tables, uint64_t table_count,
                                rocattach_register_id* id, Registration** added);

  bool Has(const char* name) const;
  // Pointers stay valid.
  std::vector<Registration*>& All() { return registrations_; }

 private:
  std::vector<Registration*> registrations_;
  unsigned instances_[16] = {};
};

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_REGISTER_REGISTRY_H_
