// An x86-64 ELF image read through its program headers only: section headers may be
// stripped or wrong. Every size and offset in it is checked before it is used.
#ifndef ROCATTACH_INJECTOR_ELF_ELF_IMAGE_H_
#define ROCATTACH_INJECTOR_ELF_ELF_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "injector/elf/byte_source.h"

namespace rocattach {

// One PT_LOAD.
struct ElfSegment {
  uint64_t vaddr = 0;   // as linked, without the load bias
  uint64_t memsz = 0;   // bytes in memory
  uint64_t offset = 0;  // in the file
  uint64_t filesz = 0;  // bytes that come from the file
  bool executable = false;
};

// A function that the image exports.
struct ElfFunction {
  uint64_t vaddr = 0;  // as linked, inside an executable PT_LOAD
  uint64_t size = 0;   // as the symbol states, may be 0
};

class ElfImage {
 public:
  // Relation between positions in the source and the image: a file has bytes at their
  // p_offset, a loaded image has them at their p_vaddr.
  enum class Form { kFile, kMemory };

  // Hard limits; an image beyond them is refused.
  static constexpr size_t kMaxProgramHeaders = 128;
  static constexpr size_t kMaxDynamicEntries = 4096;
  static constexpr uint32_t kMaxHashBuckets = 1u << 24;
  static constexpr size_t kMaxChain = 1u << 14;        // symbols compared for one name
  static constexpr size_t kMaxName = 128;              // length of a symbol to be found
  static constexpr size_t kMaxRelocations = 1u << 16;  // searched for slots

  // Reads headers and the dynamic section. `source` must outlive the image. `bias` is
  // the load bias (kMemory only): ld.so adds it to some dynamic entries in place.
  // INVALID_ARGUMENT: not ELF, or broken. UNIMPLEMENTED: a foreign class, machine or
  // byte order, or not a shared object or executable. OUT_OF_RANGE: over a limit or
  // truncated.
  static absl::StatusOr<ElfImage> Parse(const ByteSource& source, Form form,
                                        uint64_t bias = 0);

  // All PT_LOADs, in the order of the file.
  const std::vector<ElfSegment>& segments() const { return segments_; }

  // A global function by name, through DT_GNU_HASH or DT_HASH, in its default version.
  // NOT_FOUND: not exported, or only as a hidden old version. UNIMPLEMENTED: an IFUNC,
  // whose address only the target knows, or no hash table.
  absl::StatusOr<ElfFunction> FindFunction(absl::string_view name) const;

  // Finds the slots in which the image keeps the addresses of `names`, symbols that it
  // binds at runtime. Returns the linked addresses of these 8-byte words, which ld.so
  // fills in; 0 for a name without a slot. If a name has several, the first one.
  absl::StatusOr<std::vector<uint64_t>> FindSlots(
      absl::Span<const absl::string_view> names) const;

  // Reads what is linked at `vaddr`; it must lie inside one PT_LOAD.
  absl::Status Read(uint64_t vaddr, void* buffer, size_t bytes) const {
    return ReadVirtual(vaddr, buffer, bytes);
  }

  // Linked address of the index of unwind information (PT_GNU_EH_FRAME), 0: none.
  uint64_t eh_frame_header() const { return eh_frame_header_; }

  // Offset in the file of the byte that is linked at `vaddr`; NOT_FOUND if the byte is
  // not in the file.
  absl::StatusOr<uint64_t> FileOffset(uint64_t vaddr) const;

 private:
  // Best candidate so far for one name.
  struct Search;

  ElfImage(const ByteSource* source, Form form, uint64_t bias)
      : source_(source), form_(form), bias_(bias) {}

  absl::Status ReadProgramHeaders();
  absl::Status ReadDynamic();
  void StoreDynamicEntry(uint64_t tag, uint64_t value);
  // Reads `bytes` linked at `vaddr`; they must lie inside one PT_LOAD.
  absl::Status ReadVirtual(uint64_t vaddr, void* buffer, size_t bytes) const;
  // Reads element `index` of a table of T at `table`, without overflow.
  template <typename T>
  absl::StatusOr<T> ReadElement(uint64_t table, uint64_t index) const;
  absl::Status SearchGnuHash(absl::string_view name, Search* search) const;
  absl::Status SearchSysvHash(absl::string_view name, Search* search) const;
  absl::Status Consider(uint64_t index, absl::string_view name, Search* search) const;
  // Searches one table of relocations.
  absl::Status SearchRelocations(uint64_t table, uint64_t bytes,
                                 absl::Span<const absl::string_view> names,
                                 std::vector<uint64_t>* slots) const;
  bool InExecutableSegment(uint64_t vaddr) const;

  const ByteSource* source_;
  Form form_;
  uint64_t bias_;
  std::vector<ElfSegment> segments_;
  uint64_t dynamic_vaddr_ = 0;
  uint64_t dynamic_bytes_ = 0;
  // Values of the dynamic section as linked addresses; 0: absent.
  uint64_t symtab_ = 0;
  uint64_t strtab_ = 0;
  uint64_t strtab_bytes_ = 0;
  uint64_t gnu_hash_ = 0;
  uint64_t sysv_hash_ = 0;
  uint64_t versym_ = 0;
  uint64_t eh_frame_header_ = 0;
  uint64_t rela_ = 0;
  uint64_t rela_bytes_ = 0;
  uint64_t plt_rela_ = 0;
  uint64_t plt_rela_bytes_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_ELF_IMAGE_H_
