// Makes small ELF images, well-formed ones and, by patching them, hostile ones.
#ifndef ROCATTACH_TESTS_UNIT_INJECTOR_ELF_BUILDER_H_
#define ROCATTACH_TESTS_UNIT_INJECTOR_ELF_BUILDER_H_

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rocattach {

struct BuiltSymbol {
  std::string name;
  uint64_t value = 0x2010;  // inside the executable segment, see below
  uint8_t type = STT_FUNC;
  uint8_t binding = STB_GLOBAL;
  bool defined = true;
  uint16_t version = 2;  // as in DT_VERSYM; | 0x8000: hidden
};

// A shared object with two segments: everything but code from file offset 0, linked at
// 0; code of 0x100 bytes at file offset 0x1000, linked at 0x2000.
class ElfBuilder {
 public:
  static constexpr uint64_t kCodeOffset = 0x1000;
  static constexpr uint64_t kCodeVaddr = 0x2000;
  static constexpr uint64_t kCodeBytes = 0x100;

  enum class Hash { kGnu, kSysv, kNone };

  Hash hash = Hash::kGnu;
  bool versions = true;
  std::vector<BuiltSymbol> symbols;

  // The image as a file. Offsets of its parts are set by the call.
  std::string Build();

  uint64_t dynamic_offset = 0;
  uint64_t hash_offset = 0;
  uint64_t symbols_offset = 0;
  uint64_t strings_offset = 0;
  static constexpr uint64_t kProgramHeaders = sizeof(Elf64_Ehdr);
};

// Overwrites bytes of an image.
template <typename T>
void Patch(std::string* image, uint64_t offset, T value) {
  image->replace(offset, sizeof(T), reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_INJECTOR_ELF_BUILDER_H_
