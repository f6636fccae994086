#define _GNU_SOURCE
#include "tests/simgpu/elf_image.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#ifndef EM_AMDGPU
#define EM_AMDGPU 224
#endif
#define PAGE 4096

// The dynamic symbols of one image. Pointers are absolute.
struct dynamic {
  const Elf64_Sym* symbols;
  const char* strings;
  uint64_t string_bytes;
  const uint32_t* hash;      // DT_HASH: nbucket, nchain, buckets, chains
  const uint32_t* gnu_hash;  // DT_GNU_HASH
};

// Entries are absolute if the loader has relocated them, else relative to the base.
static uintptr_t absolute(uintptr_t base, uint64_t value) {
  return value < base ? base + value : value;
}

static struct dynamic read_dynamic(uintptr_t base, const Elf64_Dyn* entry,
                                   const Elf64_Dyn* end) {
  struct dynamic result = {0};
  for (; entry < end && entry->d_tag != DT_NULL; entry++) {
    uintptr_t pointer = absolute(base, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) result.symbols = (const Elf64_Sym*)pointer;
    if (entry->d_tag == DT_STRTAB) result.strings = (const char*)pointer;
    if (entry->d_tag == DT_STRSZ) result.string_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_HASH) result.hash = (const uint32_t*)pointer;
    if (entry->d_tag == DT_GNU_HASH) result.gnu_hash = (const uint32_t*)pointer;
  }
  return result;
}

// A code object as the runtime loads it: with its header, in its link-time layout.
static const Elf64_Ehdr* find_code_object(uintptr_t start, uint64_t object) {
  for (uintptr_t page = object & ~(uintptr_t)(PAGE - 1); page >= start; page -= PAGE) {
    const Elf64_Ehdr* header = (const Elf64_Ehdr*)page;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
        header->e_machine == EM_AMDGPU && header->e_phentsize == sizeof(Elf64_Phdr)) {
      return header;
    }
    if (page < PAGE) break;
  }
  return NULL;
}

static bool within(uintptr_t start, uint64_t size, const void* pointer,
                   uint64_t bytes) {
  uintptr_t at = (uintptr_t)pointer;
  return at >= start && at - start <= size && bytes <= size - (at - start);
}

bool simgpu_elf_kernel_name(uintptr_t start, uint64_t size, uint64_t object, char* name,
                            size_t name_size) {
  const Elf64_Ehdr* header = find_code_object(start, object);
  if (header == NULL) return false;
  uintptr_t base = (uintptr_t)header;
  const Elf64_Phdr* segments = (const Elf64_Phdr*)(base + header->e_phoff);
  if (!within(start, size, segments, header->e_phnum * sizeof(*segments))) return false;
  struct dynamic dynamic = {0};
  for (int i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type != PT_DYNAMIC) continue;
    const Elf64_Dyn* entries = (const Elf64_Dyn*)(base + segments[i].p_vaddr);
    if (!within(start, size, entries, segments[i].p_memsz)) return false;
    dynamic =
        read_dynamic(base, entries, entries + segments[i].p_memsz / sizeof(*entries));
  }
  if (dynamic.hash == NULL || !within(start, size, dynamic.hash, 8)) return false;
  uint32_t count = dynamic.hash[1];
  if (!within(start, size, dynamic.symbols, (uint64_t)count * sizeof(Elf64_Sym)) ||
      !within(start, size, dynamic.strings, dynamic.string_bytes)) {
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    const Elf64_Sym* symbol = &dynamic.symbols[i];
    if (symbol->st_shndx == SHN_UNDEF || base + symbol->st_value != object) continue;
    if (symbol->st_name >= dynamic.string_bytes) continue;
    const char* found = dynamic.strings + symbol->st_name;
    size_t length = strnlen(found, dynamic.string_bytes - symbol->st_name);
    if (length == 0 || length >= name_size) continue;
    memcpy(name, found, length);
    name[length] = '\0';
    return true;
  }
  return false;
}

static uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
  return hash;
}

static const Elf64_Sym* find_by_gnu_hash(const struct dynamic* dynamic,
                                         const char* name) {
  const uint32_t* table = dynamic->gnu_hash;
  const uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2];
  if (bucket_count == 0) return NULL;
  const uint32_t* buckets = table + 4 + bloom_words * 2;
  const uint32_t* chains = buckets + bucket_count;
  uint32_t hash = gnu_hash_of(name);
  uint32_t index = buckets[hash % bucket_count];
  if (index < first) return NULL;
  for (;; index++) {
    uint32_t chain = chains[index - first];
    const Elf64_Sym* symbol = &dynamic->symbols[index];
    if ((chain | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
        strcmp(dynamic->strings + symbol->st_name, name) == 0) {
      return symbol;
    }
    if (chain & 1) return NULL;
  }
}

static const Elf64_Sym* find_by_scan(const struct dynamic* dynamic, const char* name) {
  for (uint32_t i = 0; i < dynamic->hash[1]; i++) {
    const Elf64_Sym* symbol = &dynamic->symbols[i];
    if (symbol->st_shndx != SHN_UNDEF &&
        strcmp(dynamic->strings + symbol->st_name, name) == 0) {
      return symbol;
    }
  }
  return NULL;
}

static struct dynamic dynamic_of(const struct dl_phdr_info* library) {
  struct dynamic dynamic = {0};
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const Elf64_Phdr* segment = &library->dlpi_phdr[i];
    if (segment->p_type != PT_DYNAMIC) continue;
    const Elf64_Dyn* entries =
        (const Elf64_Dyn*)(library->dlpi_addr + segment->p_vaddr);
    dynamic = read_dynamic(library->dlpi_addr, entries,
                           entries + segment->p_memsz / sizeof(*entries));
  }
  return dynamic;
}

struct search {
  const char* name;
  void* found;
};

static int search_library(struct dl_phdr_info* library, size_t size, void* argument) {
  (void)size;
  struct search* search = argument;
  const struct dynamic dynamic = dynamic_of(library);
  if (dynamic.symbols == NULL || dynamic.strings == NULL) return 0;
  const Elf64_Sym* symbol = NULL;
  if (dynamic.gnu_hash != NULL) {
    symbol = find_by_gnu_hash(&dynamic, search->name);
  } else if (dynamic.hash != NULL) {
    symbol = find_by_scan(&dynamic, search->name);
  }
  if (symbol == NULL) return 0;
  search->found = (void*)(library->dlpi_addr + symbol->st_value);
  return 1;
}

void* simgpu_elf_host_symbol(const char* name) {
  struct search search = {.name = name};
  dl_iterate_phdr(search_library, &search);
  return search.found;
}
