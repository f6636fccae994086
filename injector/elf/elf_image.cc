#include "injector/elf/elf_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Not in glibc's <elf.h> before 2.36 under every compiler; from the x86-64 psABI.
constexpr uint16_t kVersionHidden = 0x8000;

absl::Status CheckHeader(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("not an ELF image: no ELF magic");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return absl::UnimplementedError(
        absl::StrCat("foreign ELF class ", header.e_ident[EI_CLASS], ", not 64-bit"));
  }
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::UnimplementedError("foreign ELF byte order, not little-endian");
  }
  if (header.e_machine != EM_X86_64) {
    return absl::UnimplementedError(
        absl::StrCat("foreign ELF machine ", header.e_machine, ", not x86-64"));
  }
  if (header.e_type != ET_DYN && header.e_type != ET_EXEC) {
    return absl::UnimplementedError(
        absl::StrCat("ELF type ", header.e_type, " is no shared object or executable"));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("program headers of ", header.e_phentsize, " bytes"));
  }
  if (header.e_phnum == 0 || header.e_phnum > ElfImage::kMaxProgramHeaders) {
    return absl::OutOfRangeError(absl::StrCat(header.e_phnum, " program headers"));
  }
  return absl::OkStatus();
}

// True if [inner, inner + bytes) lies in [outer, outer + outer_bytes).
bool Inside(uint64_t inner, uint64_t bytes, uint64_t outer, uint64_t outer_bytes) {
  return inner >= outer && inner - outer <= outer_bytes &&
         bytes <= outer_bytes - (inner - outer);
}

uint32_t GnuHash(absl::string_view name) {
  uint32_t hash = 5381;
  for (char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

uint32_t SysvHash(absl::string_view name) {
  uint32_t hash = 0;
  for (char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    uint32_t top = hash & 0xf0000000u;
    hash ^= top >> 24;
    hash &= ~top;
  }
  return hash;
}

}  // namespace

struct ElfImage::Search {
  bool found = false;
  bool hidden_version = false;  // a match that only old binaries may bind to
  bool ifunc = false;
  ElfFunction function;
};

absl::StatusOr<ElfImage> ElfImage::Parse(const ByteSource& source, Form form,
                                         uint64_t bias) {
  ElfImage image(&source, form, bias);
  RETURN_IF_ERROR(image.ReadProgramHeaders());
  RETURN_IF_ERROR(image.ReadDynamic());
  return image;
}

absl::Status ElfImage::ReadProgramHeaders() {
  Elf64_Ehdr header;
  RETURN_IF_ERROR(source_->ReadAt(0, &header, sizeof(header)));
  RETURN_IF_ERROR(CheckHeader(header));
  std::vector<Elf64_Phdr> entries(header.e_phnum);
  RETURN_IF_ERROR(source_->ReadAt(header.e_phoff, entries.data(),
                                  entries.size() * sizeof(Elf64_Phdr)));
  for (const Elf64_Phdr& entry : entries) {
    if (entry.p_type == PT_DYNAMIC) {
      dynamic_vaddr_ = entry.p_vaddr;
      dynamic_bytes_ = entry.p_memsz;
    }
    if (entry.p_type == PT_GNU_EH_FRAME) eh_frame_header_ = entry.p_vaddr;
    if (entry.p_type != PT_LOAD) continue;
    if (entry.p_filesz > entry.p_memsz || entry.p_vaddr > UINT64_MAX - entry.p_memsz ||
        entry.p_offset > UINT64_MAX - entry.p_filesz) {
      return absl::InvalidArgumentError(
          absl::StrFormat("PT_LOAD at %#x with impossible sizes", entry.p_vaddr));
    }
    segments_.push_back({entry.p_vaddr, entry.p_memsz, entry.p_offset, entry.p_filesz,
                         (entry.p_flags & PF_X) != 0});
  }
  if (segments_.empty()) return absl::InvalidArgumentError("no PT_LOAD");
  return absl::OkStatus();
}

absl::Status ElfImage::ReadDynamic() {
  if (dynamic_vaddr_ == 0) {
    return absl::InvalidArgumentError(
        "no PT_DYNAMIC: statically linked, or no library");
  }
  size_t count = dynamic_bytes_ / sizeof(Elf64_Dyn);
  if (count == 0 || count > kMaxDynamicEntries) {
    return absl::OutOfRangeError(
        absl::StrCat("dynamic section of ", count, " entries"));
  }
  std::vector<Elf64_Dyn> entries(count);
  RETURN_IF_ERROR(
      ReadVirtual(dynamic_vaddr_, entries.data(), count * sizeof(Elf64_Dyn)));
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMENT && entry.d_un.d_val != sizeof(Elf64_Sym)) {
      return absl::InvalidArgumentError(
          absl::StrCat("symbols of ", entry.d_un.d_val, " bytes"));
    }
    StoreDynamicEntry(static_cast<uint64_t>(entry.d_tag), entry.d_un.d_val);
  }
  if (symtab_ == 0 || strtab_ == 0 || strtab_bytes_ == 0) {
    return absl::InvalidArgumentError("no dynamic symbol table");
  }
  return absl::OkStatus();
}

void ElfImage::StoreDynamicEntry(uint64_t tag, uint64_t value) {
  // In memory, ld.so has added the bias to these addresses on most architectures, and
  // leaves them alone in images whose dynamic section is read-only.
  uint64_t address = value;
  if (form_ == Form::kMemory && bias_ != 0 && value >= bias_) address = value - bias_;
  switch (tag) {
    case DT_SYMTAB:
      symtab_ = address;
      break;
    case DT_STRTAB:
      strtab_ = address;
      break;
    case DT_STRSZ:
      strtab_bytes_ = value;
      break;
    case DT_GNU_HASH:
      gnu_hash_ = address;
      break;
    case DT_HASH:
      sysv_hash_ = address;
      break;
    case DT_VERSYM:
      versym_ = address;
      break;
    case DT_RELA:
      rela_ = address;
      break;
    case DT_RELASZ:
      rela_bytes_ = value;
      break;
    case DT_JMPREL:
      plt_rela_ = address;
      break;
    case DT_PLTRELSZ:
      plt_rela_bytes_ = value;
      break;
    default:
      break;
  }
}

absl::Status ElfImage::ReadVirtual(uint64_t vaddr, void* buffer, size_t bytes) const {
  for (const ElfSegment& segment : segments_) {
    uint64_t extent = form_ == Form::kFile ? segment.filesz : segment.memsz;
    if (!Inside(vaddr, bytes, segment.vaddr, extent)) continue;
    uint64_t position =
        form_ == Form::kFile ? segment.offset + (vaddr - segment.vaddr) : vaddr;
    return source_->ReadAt(position, buffer, bytes);
  }
  return absl::OutOfRangeError(
      absl::StrFormat("%d bytes linked at %#x are in no segment", bytes, vaddr));
}

template <typename T>
absl::StatusOr<T> ElfImage::ReadElement(uint64_t table, uint64_t index) const {
  uint64_t bytes, vaddr;
  if (__builtin_mul_overflow(index, sizeof(T), &bytes) ||
      __builtin_add_overflow(table, bytes, &vaddr)) {
    return absl::OutOfRangeError(
        absl::StrFormat("element %d of the table at %#x", index, table));
  }
  T element;
  RETURN_IF_ERROR(ReadVirtual(vaddr, &element, sizeof(element)));
  return element;
}

absl::StatusOr<ElfFunction> ElfImage::FindFunction(absl::string_view name) const {
  if (name.empty() || name.size() > kMaxName) {
    return absl::InvalidArgumentError(
        absl::StrCat("a symbol name of ", name.size(), " characters"));
  }
  Search search;
  if (gnu_hash_ != 0) {
    RETURN_IF_ERROR(SearchGnuHash(name, &search));
  } else if (sysv_hash_ != 0) {
    RETURN_IF_ERROR(SearchSysvHash(name, &search));
  } else {
    return absl::UnimplementedError("the image has no symbol hash table");
  }
  if (search.found) return search.function;
  if (search.ifunc) {
    return absl::UnimplementedError(
        absl::StrCat(name, " is an IFUNC, whose address only the target knows"));
  }
  return absl::NotFoundError(
      search.hidden_version ? absl::StrCat(name, " exists only as a hidden old version")
                            : absl::StrCat("the image exports no function ", name));
}

absl::Status ElfImage::SearchGnuHash(absl::string_view name, Search* search) const {
  struct Header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  ASSIGN_OR_RETURN(Header header, ReadElement<Header>(gnu_hash_, 0));
  if (header.buckets == 0 || header.buckets > kMaxHashBuckets ||
      header.bloom_words == 0 || header.bloom_words > kMaxHashBuckets ||
      header.bloom_shift > 31) {
    return absl::InvalidArgumentError(
        absl::StrFormat("GNU hash table with %d buckets, %d filter words and shift %d",
                        header.buckets, header.bloom_words, header.bloom_shift));
  }
  const uint64_t bloom = gnu_hash_ + sizeof(Header);
  const uint64_t buckets = bloom + uint64_t{header.bloom_words} * sizeof(uint64_t);
  const uint64_t chains = buckets + uint64_t{header.buckets} * sizeof(uint32_t);
  const uint32_t hash = GnuHash(name);

  ASSIGN_OR_RETURN(uint64_t word,
                   ReadElement<uint64_t>(bloom, hash / 64 % header.bloom_words));
  uint64_t mask = 1ull << (hash % 64) | 1ull << ((hash >> header.bloom_shift) % 64);
  if ((word & mask) != mask) return absl::OkStatus();

  ASSIGN_OR_RETURN(uint32_t index,
                   ReadElement<uint32_t>(buckets, hash % header.buckets));
  if (index == 0) return absl::OkStatus();
  if (index < header.first_symbol) {
    return absl::InvalidArgumentError("GNU hash bucket before the first hashed symbol");
  }
  for (size_t steps = 0; steps < kMaxChain; ++steps, ++index) {
    ASSIGN_OR_RETURN(uint32_t chain,
                     ReadElement<uint32_t>(chains, index - header.first_symbol));
    if ((chain | 1) == (hash | 1)) RETURN_IF_ERROR(Consider(index, name, search));
    if (search->found || (chain & 1) != 0) return absl::OkStatus();
    if (index == UINT32_MAX) break;
  }
  return absl::OutOfRangeError("GNU hash chain without an end");
}

absl::Status ElfImage::SearchSysvHash(absl::string_view name, Search* search) const {
  ASSIGN_OR_RETURN(uint32_t bucket_count, ReadElement<uint32_t>(sysv_hash_, 0));
  ASSIGN_OR_RETURN(uint32_t chain_count, ReadElement<uint32_t>(sysv_hash_, 1));
  if (bucket_count == 0 || bucket_count > kMaxHashBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("hash table with ", bucket_count, " buckets"));
  }
  const uint64_t buckets = sysv_hash_ + 2 * sizeof(uint32_t);
  const uint64_t chains = buckets + uint64_t{bucket_count} * sizeof(uint32_t);
  ASSIGN_OR_RETURN(uint32_t index,
                   ReadElement<uint32_t>(buckets, SysvHash(name) % bucket_count));
  for (size_t steps = 0; index != 0; ++steps) {
    if (index >= chain_count || steps >= kMaxChain) {
      return absl::OutOfRangeError("hash chain without an end");
    }
    RETURN_IF_ERROR(Consider(index, name, search));
    if (search->found) break;
    ASSIGN_OR_RETURN(index, ReadElement<uint32_t>(chains, index));
  }
  return absl::OkStatus();
}

absl::Status ElfImage::Consider(uint64_t index, absl::string_view name,
                                Search* search) const {
  ASSIGN_OR_RETURN(Elf64_Sym symbol, ReadElement<Elf64_Sym>(symtab_, index));
  if (!Inside(symbol.st_name, name.size() + 1, 0, strtab_bytes_)) {
    return absl::OkStatus();  // too close to the end of the strings to be this name
  }
  char text[kMaxName + 1];
  ASSIGN_OR_RETURN(char first, ReadElement<char>(strtab_, symbol.st_name));
  if (first != name[0]) return absl::OkStatus();
  RETURN_IF_ERROR(ReadVirtual(strtab_ + symbol.st_name, text, name.size() + 1));
  if (absl::string_view(text, name.size()) != name || text[name.size()] != '\0') {
    return absl::OkStatus();
  }
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  if (symbol.st_shndx == SHN_UNDEF || (binding != STB_GLOBAL && binding != STB_WEAK)) {
    return absl::OkStatus();
  }
  if (versym_ != 0) {
    ASSIGN_OR_RETURN(uint16_t version, ReadElement<uint16_t>(versym_, index));
    if ((version & ~kVersionHidden) == VER_NDX_LOCAL) return absl::OkStatus();
    if ((version & kVersionHidden) != 0) {
      search->hidden_version = true;
      return absl::OkStatus();
    }
  }
  if (type == STT_GNU_IFUNC) {
    search->ifunc = true;
    return absl::OkStatus();
  }
  if (type != STT_FUNC) return absl::OkStatus();
  if (!InExecutableSegment(symbol.st_value)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s at %#x is in no executable segment", std::string(name), symbol.st_value));
  }
  search->found = true;
  search->function = {symbol.st_value, symbol.st_size};
  return absl::OkStatus();
}

absl::Status ElfImage::SearchRelocations(uint64_t table, uint64_t bytes,
                                         absl::Span<const absl::string_view> names,
                                         std::vector<uint64_t>* slots) const {
  constexpr size_t kChunk = 256;
  const uint64_t count =
      std::min<uint64_t>(bytes / sizeof(Elf64_Rela), kMaxRelocations);
  Elf64_Rela entries[kChunk];
  for (uint64_t done = 0; done < count; done += kChunk) {
    const size_t part = std::min<uint64_t>(kChunk, count - done);
    RETURN_IF_ERROR(ReadVirtual(table + done * sizeof(Elf64_Rela), entries,
                                part * sizeof(Elf64_Rela)));
    for (size_t i = 0; i < part; ++i) {
      const uint32_t type = ELF64_R_TYPE(entries[i].r_info);
      if (entries[i].r_addend != 0 ||
          (type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT)) {
        continue;
      }
      ASSIGN_OR_RETURN(Elf64_Sym symbol,
                       ReadElement<Elf64_Sym>(symtab_, ELF64_R_SYM(entries[i].r_info)));
      char text[kMaxName + 1] = {};
      const uint64_t left =
          symbol.st_name < strtab_bytes_ ? strtab_bytes_ - symbol.st_name : 0;
      RETURN_IF_ERROR(ReadVirtual(strtab_ + symbol.st_name, text,
                                  std::min<uint64_t>(left, kMaxName)));
      for (size_t n = 0; n < names.size(); ++n) {
        if ((*slots)[n] == 0 && names[n] == text) (*slots)[n] = entries[i].r_offset;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ElfImage::FindSlots(
    absl::Span<const absl::string_view> names) const {
  std::vector<uint64_t> slots(names.size());
  RETURN_IF_ERROR(SearchRelocations(rela_, rela_bytes_, names, &slots));
  RETURN_IF_ERROR(SearchRelocations(plt_rela_, plt_rela_bytes_, names, &slots));
  return slots;
}

bool ElfImage::InExecutableSegment(uint64_t vaddr) const {
  return std::any_of(
      segments_.begin(), segments_.end(), [&](const ElfSegment& segment) {
        return segment.executable && Inside(vaddr, 1, segment.vaddr, segment.filesz);
      });
}

absl::StatusOr<uint64_t> ElfImage::FileOffset(uint64_t vaddr) const {
  for (const ElfSegment& segment : segments_) {
    if (Inside(vaddr, 1, segment.vaddr, segment.filesz)) {
      return segment.offset + (vaddr - segment.vaddr);
    }
  }
  return absl::NotFoundError(
      absl::StrFormat("the byte linked at %#x is not in the file", vaddr));
}

}  // namespace rocattach
