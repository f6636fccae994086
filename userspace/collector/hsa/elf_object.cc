#include "userspace/collector/hsa/elf_object.h"

#include <string.h>

namespace rocattach::collector {
namespace {

struct Search {
  const void* address;
  ElfObject* object;
};

int Visit(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  ElfObject object(*info);
  if (!object.Contains(search->address)) return 0;
  *search->object = object;
  return 1;
}

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<uint8_t>(*name);
  return hash;
}

}  // namespace

// The parts of the dynamic section that a look-up needs. DT_GNU_HASH is laid out as in
// glibc's elf/dl-lookup.c: a header of four words, a Bloom filter, buckets, chains.
struct ElfObject::Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* hash = nullptr;

  bool Is(uint32_t index, const char* name) const {
    const ElfW(Sym)& s = symbols[index];
    return s.st_shndx != SHN_UNDEF && s.st_value != 0 &&
           ELF64_ST_TYPE(s.st_info) == STT_FUNC &&
           strcmp(strings + s.st_name, name) == 0;
  }

  const ElfW(Sym) * FindGnu(const char* name) const {
    const uint32_t buckets = gnu_hash[0], first = gnu_hash[1], words = gnu_hash[2];
    const uint32_t shift = gnu_hash[3];
    if (buckets == 0 || words == 0) return nullptr;
    const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(gnu_hash + 4);
    const auto* bucket = reinterpret_cast<const uint32_t*>(bloom + words);
    const uint32_t* chain = bucket + buckets;
    const uint32_t hash_value = GnuHash(name);
    constexpr uint32_t kBits = 8 * sizeof(ElfW(Addr));
    const ElfW(Addr) word = bloom[hash_value / kBits % words];
    if (((word >> (hash_value % kBits)) & (word >> ((hash_value >> shift) % kBits)) &
         1) == 0) {
      return nullptr;
    }
    uint32_t index = bucket[hash_value % buckets];
    if (index < first) return nullptr;
    for (;; ++index) {
      const uint32_t entry = chain[index - first];
      if ((entry | 1) == (hash_value | 1) && Is(index, name)) return &symbols[index];
      if ((entry & 1) != 0) return nullptr;
    }
  }

  const ElfW(Sym) * FindPlain(const char* name) const {
    const uint32_t count = hash[1];  // nchain: the number of symbols
    for (uint32_t i = 1; i < count; ++i) {
      if (Is(i, name)) return &symbols[i];
    }
    return nullptr;
  }
};

bool ElfObject::Find(const void* address, ElfObject* object) {
  Search search = {address, object};
  return dl_iterate_phdr(&Visit, &search) != 0;
}

bool ElfObject::Contains(const void* address, size_t bytes, uint32_t flags) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < header_count_; ++i) {
    const ElfW(Phdr)& segment = headers_[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags) continue;
    const uintptr_t offset = at - base_ - segment.p_vaddr;
    if (offset < segment.p_memsz && bytes <= segment.p_memsz - offset) return true;
  }
  return false;
}

// Bytes from `address` to the end of its executable segment; 0 if there is none.
size_t ElfObject::CodeFrom(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (size_t i = 0; i < header_count_; ++i) {
    const ElfW(Phdr)& segment = headers_[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t offset = at - base_ - segment.p_vaddr;
    if (offset < segment.p_memsz) return segment.p_memsz - offset;
  }
  return 0;
}

bool ElfObject::ReadTables(Tables* tables) const {
  const ElfW(Dyn)* dynamic = nullptr;
  for (size_t i = 0; i < header_count_; ++i) {
    if (headers_[i].p_type != PT_DYNAMIC) continue;
    dynamic = reinterpret_cast<const ElfW(Dyn)*>(base_ + headers_[i].p_vaddr);
  }
  if (dynamic == nullptr) return false;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    // glibc has added the base to these; an object that it has not relocated (the vDSO)
    // and other C libraries have offsets there.
    uintptr_t value = dynamic->d_un.d_ptr;
    if (value < base_) value += base_;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        tables->symbols = reinterpret_cast<const ElfW(Sym)*>(value);
        break;
      case DT_STRTAB:
        tables->strings = reinterpret_cast<const char*>(value);
        break;
      case DT_GNU_HASH:
        tables->gnu_hash = reinterpret_cast<const uint32_t*>(value);
        break;
      case DT_HASH:
        tables->hash = reinterpret_cast<const uint32_t*>(value);
        break;
      default:
        break;
    }
  }
  return tables->symbols != nullptr && tables->strings != nullptr &&
         (tables->gnu_hash != nullptr || tables->hash != nullptr);
}

ElfObject::Code ElfObject::Function(const char* symbol) const {
  Tables tables;
  if (!ReadTables(&tables)) return {};
  const ElfW(Sym)* found =
      tables.gnu_hash != nullptr ? tables.FindGnu(symbol) : tables.FindPlain(symbol);
  if (found == nullptr) return {};
  Code code;
  code.address = reinterpret_cast<const void*>(base_ + found->st_value);
  code.bytes = CodeFrom(code.address);
  if (found->st_size != 0 && found->st_size < code.bytes) code.bytes = found->st_size;
  return code;
}

}  // namespace rocattach::collector
