#include "injector/elf/library_facts.h"

#include <errno.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/mapped_file.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// mov $SYS_rt_sigreturn, %rax; syscall: all of glibc's __restore_rt.
constexpr absl::string_view kSignalReturn("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
constexpr size_t kMaxSignalReturns = 4;
// More code than this is not searched; glibc has 1.5 MB.
constexpr uint64_t kMaxCode = 8u << 20;

std::vector<uint64_t> FindSignalReturns(const ByteSource& source,
                                        const ElfImage& image) {
  constexpr size_t kChunk = 256 * 1024;
  std::vector<uint64_t> found;
  std::string code;
  for (const ElfSegment& segment : image.segments()) {
    if (!segment.executable) continue;
    const uint64_t bytes = std::min(segment.filesz, kMaxCode);
    // Chunks overlap, so that no match is cut in two.
    for (uint64_t at = 0; at + kSignalReturn.size() <= bytes;
         at += kChunk - kSignalReturn.size() + 1) {
      code.resize(std::min<uint64_t>(kChunk, bytes - at));
      if (!source.ReadAt(segment.offset + at, code.data(), code.size()).ok()) break;
      const absl::string_view view = code;
      for (size_t hit = view.find(kSignalReturn); hit != absl::string_view::npos;
           hit = view.find(kSignalReturn, hit + 1)) {
        if (found.size() < kMaxSignalReturns) {
          found.push_back(segment.vaddr + at + hit);
        }
      }
    }
  }
  return found;
}

// Reads the facts that only a C library has. One that was built differently may lack
// them; an attach then works without them.
void ReadLibcFacts(const ByteSource& source, const ElfImage& image,
                   LibraryFacts* facts) {
  if (auto slots = image.FindSlots({"_rtld_global", "malloc"}); slots.ok()) {
    facts->loader_state_slot = (*slots)[0];
    facts->malloc_slot = (*slots)[1];
  }
  facts->signal_returns = FindSignalReturns(source, image);
}

absl::StatusOr<std::shared_ptr<const LibraryFacts>> ReadLibraryFacts(int fd) {
  FileSource source(fd);
  ASSIGN_OR_RETURN(ElfImage image, ElfImage::Parse(source, ElfImage::Form::kFile));
  auto facts = std::make_shared<LibraryFacts>();
  facts->segments = image.segments();
  for (size_t i = 0; i < facts->functions.size(); ++i) {
    auto found = image.FindFunction(LibcFunctionName(static_cast<LibcFunction>(i)));
    // Not every library has them; if this cannot be told (no hash table, IFUNC), the
    // library counts as not having them. A broken table is an error.
    if (found.ok()) {
      facts->functions[i] = found->vaddr;
      ASSIGN_OR_RETURN(uint64_t offset, image.FileOffset(found->vaddr));
      RETURN_IF_ERROR(
          source.ReadAt(offset, facts->code[i].data(), facts->code[i].size()));
    } else if (!absl::IsNotFound(found.status()) &&
               !absl::IsUnimplemented(found.status())) {
      return found.status();
    }
  }
  if (facts->function(LibcFunction::kErrnoLocation) != 0) {
    ReadLibcFacts(source, image, facts.get());
  }
  return std::shared_ptr<const LibraryFacts>(std::move(facts));
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

absl::string_view LibcFunctionName(LibcFunction function) {
  switch (function) {
    case LibcFunction::kDlopen:
      return "dlopen";
    case LibcFunction::kDlsym:
      return "dlsym";
    case LibcFunction::kDlerror:
      return "dlerror";
    case LibcFunction::kErrnoLocation:
      return "__errno_location";
    case LibcFunction::kMutexTrylock:
      return "pthread_mutex_trylock";
    case LibcFunction::kMutexUnlock:
      return "pthread_mutex_unlock";
    case LibcFunction::kCount:
      break;
  }
  return "";
}

LibraryKey LibraryKey::FromStat(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
          Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim)};
}

std::shared_ptr<const LibraryFacts> LibraryCache::Find(const LibraryKey& key) const {
  absl::MutexLock lock(&mutex_);
  auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : found->second;
}

void LibraryCache::Store(const LibraryKey& key,
                         std::shared_ptr<const LibraryFacts> facts) {
  absl::MutexLock lock(&mutex_);
  if (entries_.size() >= kMaxEntries) entries_.clear();
  entries_[key] = std::move(facts);
}

size_t LibraryCache::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

absl::StatusOr<std::shared_ptr<const LibraryFacts>> LoadLibraryFacts(
    pid_t pid, const Mapping& mapping, LibraryCache* cache) {
  if (mapping.facts != nullptr) return mapping.facts;
  struct stat info;
  if (cache != nullptr) {
    RETURN_IF_ERROR(StatMappedFile(pid, mapping, &info));
    if (auto facts = cache->Find(LibraryKey::FromStat(info))) return facts;
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenMappedFile(pid, mapping));
  // The key is that of the file being read, not of the one that was looked up above.
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("fstat(", mapping.path, ") failed"));
  }
  auto facts = ReadLibraryFacts(fd.get());
  if (!facts.ok()) {
    return absl::Status(facts.status().code(),
                        absl::StrCat(mapping.path, ": ", facts.status().message()));
  }
  if (cache != nullptr) cache->Store(LibraryKey::FromStat(info), *facts);
  return facts;
}

absl::StatusOr<uint64_t> LoadBias(const LibraryFacts& facts, const Mapping& mapping) {
  for (const ElfSegment& segment : facts.segments) {
    if (!segment.executable) continue;
    // ld.so maps from the page of p_offset; mprotect may have split the mapping since.
    uint64_t begin = segment.offset & ~(kPageBytes - 1);
    if (mapping.offset < begin || mapping.offset >= segment.offset + segment.filesz) {
      continue;
    }
    uint64_t bias =
        mapping.start.value() - mapping.offset + segment.offset - segment.vaddr;
    if (bias % kPageBytes != 0) continue;
    return bias;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: no executable segment holds file offset %#x",
                      std::string(mapping.path), mapping.offset));
}

}  // namespace rocattach
