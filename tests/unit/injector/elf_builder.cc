#include "tests/unit/injector/elf_builder.h"

#include <algorithm>
#include <cstring>

namespace rocattach {
namespace {

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Align(std::string* out) {
  out->resize((out->size() + 15) & ~size_t{15});
}

uint32_t GnuHashOf(const std::string& name) {
  uint32_t hash = 5381;
  for (unsigned char c : name) hash = (hash << 5) + hash + c;
  return hash;
}

uint32_t SysvHashOf(const std::string& name) {
  uint32_t hash = 0;
  for (unsigned char c : name) {
    hash = (hash << 4) + c;
    if (uint32_t top = hash & 0xf0000000u) hash = (hash ^ (top >> 24)) & ~top;
  }
  return hash;
}

constexpr uint32_t kBuckets = 3;

// All symbols from index 1 on, already sorted by bucket.
std::string GnuTable(const std::vector<BuiltSymbol>& symbols) {
  std::string table;
  for (uint32_t value : {kBuckets, 1u, 1u, 6u}) Append(&table, value);
  uint64_t bloom = 0;
  uint32_t buckets[kBuckets] = {};
  std::vector<uint32_t> chain;
  for (size_t i = 0; i < symbols.size(); ++i) {
    uint32_t hash = GnuHashOf(symbols[i].name);
    bloom |= 1ull << (hash % 64) | 1ull << ((hash >> 6) % 64);
    uint32_t& bucket = buckets[hash % kBuckets];
    if (bucket == 0) bucket = static_cast<uint32_t>(i + 1);
    bool last = i + 1 == symbols.size() ||
                GnuHashOf(symbols[i + 1].name) % kBuckets != hash % kBuckets;
    chain.push_back((hash & ~1u) | (last ? 1 : 0));
  }
  Append(&table, bloom);
  for (uint32_t bucket : buckets) Append(&table, bucket);
  for (uint32_t entry : chain) Append(&table, entry);
  return table;
}

std::string SysvTable(const std::vector<BuiltSymbol>& symbols) {
  std::vector<uint32_t> buckets(kBuckets), chain(symbols.size() + 1);
  for (size_t i = 0; i < symbols.size(); ++i) {
    uint32_t& bucket = buckets[SysvHashOf(symbols[i].name) % kBuckets];
    chain[i + 1] = bucket;
    bucket = static_cast<uint32_t>(i + 1);
  }
  std::string table;
  Append(&table, kBuckets);
  Append(&table, static_cast<uint32_t>(chain.size()));
  for (uint32_t bucket : buckets) Append(&table, bucket);
  for (uint32_t entry : chain) Append(&table, entry);
  return table;
}

Elf64_Phdr Header(uint32_t type, uint32_t flags, uint64_t offset, uint64_t vaddr,
                  uint64_t bytes) {
  return {type, flags, offset, vaddr, vaddr, bytes, bytes, 0x1000};
}

Elf64_Ehdr FileHeader() {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = ElfBuilder::kProgramHeaders;
  header.e_ehsize = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  return header;
}

Elf64_Dyn Dynamic(int64_t tag, uint64_t value) {
  Elf64_Dyn entry;
  entry.d_tag = tag;
  entry.d_un.d_val = value;
  return entry;
}

}  // namespace

std::string ElfBuilder::Build() {
  if (hash == Hash::kGnu) {
    std::stable_sort(
        symbols.begin(), symbols.end(), [](const BuiltSymbol& a, const BuiltSymbol& b) {
          return GnuHashOf(a.name) % kBuckets < GnuHashOf(b.name) % kBuckets;
        });
  }
  std::string image(sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr), '\0');
  std::string strings(1, '\0');
  std::string table(sizeof(Elf64_Sym), '\0');
  std::string versym(2, '\0');
  for (const BuiltSymbol& symbol : symbols) {
    Elf64_Sym entry = {};
    entry.st_name = static_cast<uint32_t>(strings.size());
    entry.st_info = ELF64_ST_INFO(symbol.binding, symbol.type);
    entry.st_shndx = symbol.defined ? 1 : SHN_UNDEF;
    entry.st_value = symbol.value;
    entry.st_size = 8;
    Append(&table, entry);
    Append(&versym, symbol.version);
    strings += symbol.name;
    strings += '\0';
  }
  auto place = [&image](const std::string& part) {
    Align(&image);
    uint64_t offset = image.size();
    image += part;
    return offset;
  };
  symbols_offset = place(table);
  strings_offset = place(strings);
  const uint64_t versym_offset = place(versym);
  hash_offset = place(hash == Hash::kSysv ? SysvTable(symbols) : GnuTable(symbols));

  std::string dynamic;
  Append(&dynamic, Dynamic(DT_SYMTAB, symbols_offset));
  Append(&dynamic, Dynamic(DT_STRTAB, strings_offset));
  Append(&dynamic, Dynamic(DT_STRSZ, strings.size()));
  Append(&dynamic, Dynamic(DT_SYMENT, sizeof(Elf64_Sym)));
  if (versions) Append(&dynamic, Dynamic(DT_VERSYM, versym_offset));
  if (hash != Hash::kNone) {
    Append(&dynamic, Dynamic(hash == Hash::kGnu ? DT_GNU_HASH : DT_HASH, hash_offset));
  }
  Append(&dynamic, Dynamic(DT_NULL, 0));
  dynamic_offset = place(dynamic);

  Patch(&image, 0, FileHeader());
  Patch(&image, kProgramHeaders, Header(PT_LOAD, PF_R, 0, 0, image.size()));
  Patch(&image, kProgramHeaders + sizeof(Elf64_Phdr),
        Header(PT_LOAD, PF_R | PF_X, kCodeOffset, kCodeVaddr, kCodeBytes));
  Patch(&image, kProgramHeaders + 2 * sizeof(Elf64_Phdr),
        Header(PT_DYNAMIC, PF_R, dynamic_offset, dynamic_offset, dynamic.size()));
  image.resize(kCodeOffset + kCodeBytes, '\x90');
  return image;
}

}  // namespace rocattach
