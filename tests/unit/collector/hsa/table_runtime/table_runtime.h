// Access to the libraries of this folder, for tests.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_TABLE_RUNTIME_TABLE_RUNTIME_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_TABLE_RUNTIME_TABLE_RUNTIME_H_

#include <dlfcn.h>
#include <stdint.h>

#include <map>
#include <string>

#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {

// One of these libraries, loaded until the process ends. Tests check loaded() first.
class TableRuntime {
 public:
  explicit TableRuntime(const std::string& name)
      : library_(dlopen(
            (std::string(ROCATTACH_TEST_TABLE_RUNTIMES) + "/" + name + ".so").c_str(),
            RTLD_NOW | RTLD_LOCAL)) {}

  bool loaded() const { return library_ != nullptr; }
  const void* window() const { return dlsym(library_, "hsa_init"); }
  ApiTableRoot root() const {
    ApiTableRoot root = {};
    reinterpret_cast<void (*)(ApiTableRoot*)>(dlsym(library_, "tables_root"))(&root);
    return root;
  }
  // The function in every entry that has not been replaced.
  void* function() const {
    return *static_cast<void* const*>(dlsym(library_, "tables_function"));
  }
  // Slots of the AMD extension table, by function name without hsa_amd_.
  std::map<std::string, uint32_t> Slots() const {
    struct Slot {
      const char* name;
      uint32_t slot;
    };
    std::map<std::string, uint32_t> slots;
    for (auto* at = static_cast<const Slot*>(dlsym(library_, "tables_slots"));
         at->name != nullptr; ++at) {
      slots[at->name] = at->slot;
    }
    return slots;
  }

 private:
  void* library_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_TABLE_RUNTIME_TABLE_RUNTIME_H_
