#include "injector/elf/known_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/process/mapped_collector.h"
#include "injector/process/target_checks.h"

namespace rocattach {
namespace {

// include/linux/mm.h, as rocattach_mapped_file.access has them.
constexpr uint32_t kReadable = 0x1;
constexpr uint32_t kWritable = 0x2;
constexpr uint32_t kExecutable = 0x4;
constexpr uint32_t kShared = 0x8;
constexpr uint32_t kGrowsDown = 0x100;

void SetAccess(uint32_t access, Mapping* mapping) {
  mapping->readable = (access & kReadable) != 0;
  mapping->writable = (access & kWritable) != 0;
  mapping->executable = (access & kExecutable) != 0;
  mapping->is_private = (access & kShared) == 0;
}

bool HasWindow(const rocattach_layout& layout, const rocattach_mapped_file& file) {
  return layout.ip >= file.start && layout.ip < file.end;
}

Mapping StackOf(const rocattach_layout& layout) {
  Mapping mapping;
  mapping.start = RemoteAddress(layout.stack_start);
  mapping.end = RemoteAddress(layout.stack_end);
  SetAccess(layout.stack_access, &mapping);
  // The first thread's stack, which grows on demand.
  if ((layout.stack_access & kGrowsDown) != 0) mapping.path = "[stack]";
  return mapping;
}

// Mappings that an attach has to inspect each time.
bool IsNoteworthy(const Mapping& mapping, absl::string_view collector_path) {
  return IsGlibcLibrary(mapping.basename()) || IsEmulator(mapping.basename()) ||
         mapping.path == collector_path || mapping.path == ROCATTACH_COLLECTOR_MEMFD ||
         absl::StartsWith(mapping.path, "/" ROCATTACH_MEMORY_NAME);
}

}  // namespace

std::optional<Maps> KnownFiles::MapsOf(const rocattach_layout& layout) const {
  if (layout.flags != 0 || layout.count > ROCATTACH_LAYOUT_FILES ||
      layout.stack_start >= layout.stack_end) {
    return std::nullopt;
  }
  std::vector<Mapping> mappings;
  mappings.reserve(layout.count + 1);
  const Mapping stack = StackOf(layout);
  bool has_stack = false;
  absl::MutexLock lock(&mutex_);
  for (uint32_t i = 0; i < layout.count; ++i) {
    const rocattach_mapped_file& file = layout.files[i];
    auto known = files_.find(KeyOf(file.key));
    if (known == files_.end() || file.start >= file.end) return std::nullopt;
    Mapping mapping;
    mapping.start = RemoteAddress(file.start);
    mapping.end = RemoteAddress(file.end);
    SetAccess(file.access, &mapping);
    mapping.offset = file.offset;
    mapping.device_major = file.key.device;
    mapping.inode = file.key.inode;
    mapping.path = known->second->path;
    // Keeps the path alive as well.
    mapping.facts = {known->second, known->second->facts.get()};
    if (!has_stack && stack.start < mapping.start) {
      mappings.push_back(stack);
      has_stack = true;
    }
    if (!mappings.empty() && mapping.start < mappings.back().end) return std::nullopt;
    mappings.push_back(std::move(mapping));
  }
  if (!has_stack) mappings.push_back(stack);
  return Maps::Of(std::move(mappings));
}

std::vector<KnownFiles::Judgement> KnownFiles::Learn(pid_t pid,
                                                     const rocattach_layout& layout,
                                                     const Maps& maps,
                                                     absl::string_view collector_path,
                                                     LibraryCache* facts) {
  std::vector<Judgement> judgements;
  for (uint32_t i = 0; i < layout.count && i < ROCATTACH_LAYOUT_FILES; ++i) {
    const rocattach_mapped_file& file = layout.files[i];
    const Mapping* mapping = maps.Find(RemoteAddress(file.start));
    // Both sources must describe the same mapping.
    if (mapping == nullptr || mapping->start.value() != file.start ||
        mapping->end.value() != file.end || mapping->inode == 0) {
      continue;
    }
    const bool noteworthy = IsNoteworthy(*mapping, collector_path);
    if (IsGlibcLibrary(mapping->basename()) || HasWindow(layout, file)) {
      auto found = LoadLibraryFacts(pid, *mapping, facts);
      if (!found.ok()) continue;
      absl::MutexLock lock(&mutex_);
      if (files_.size() >= kMaxFiles) files_.clear();
      files_[KeyOf(file.key)] = std::make_shared<const File>(
          File{std::string(mapping->path), *std::move(found)});
    }
    judgements.push_back(
        {file.key, noteworthy ? ROCATTACH_FILE_NOTEWORTHY : ROCATTACH_FILE_PLAIN});
  }
  return judgements;
}

}  // namespace rocattach
