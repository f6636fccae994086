// A shared object that the loader has mapped into this process, read from memory.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_ELF_OBJECT_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_ELF_OBJECT_H_

#include <link.h>
#include <stddef.h>
#include <stdint.h>

namespace rocattach::collector {

// Reads what the dynamic loader itself uses: program headers and the dynamic section.
// So it needs no file, no path, and no dlsym, which would follow the order of symbol
// resolution into other objects.
class ElfObject {
 public:
  ElfObject() = default;
  explicit ElfObject(const dl_phdr_info& info) : ElfObject(&info) {}

  // Finds the object with `address` in one of its segments. False if there is none.
  static bool Find(const void* address, ElfObject* object);

  // As the loader has it; "" for the program itself. Valid while the object is mapped.
  const char* name() const { return name_; }

  // True if all of [address, address + bytes) lies in one segment with all of `flags`
  // (PF_R, PF_W, PF_X).
  bool Contains(const void* address, size_t bytes = 1, uint32_t flags = 0) const;

  // A function that this object defines and exports. If a name has several versions,
  // the first one in the table.
  struct Code {
    const void* address = nullptr;  // nullptr: there is none
    // Up to the function's end, or to the end of its executable segment if the symbol
    // has no size; 0 if it is in no executable segment.
    size_t bytes = 0;
  };
  Code Function(const char* symbol) const;

 private:
  struct Tables;

  explicit ElfObject(const dl_phdr_info* info)
      : base_(info->dlpi_addr),
        headers_(info->dlpi_phdr),
        header_count_(info->dlpi_phnum),
        name_(info->dlpi_name != nullptr ? info->dlpi_name : "") {}

  bool ReadTables(Tables* tables) const;
  size_t CodeFrom(const void* address) const;

  uintptr_t base_ = 0;
  const ElfW(Phdr) * headers_ = nullptr;
  size_t header_count_ = 0;
  const char* name_ = "";
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_ELF_OBJECT_H_
