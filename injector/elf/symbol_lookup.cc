#include "injector/elf/symbol_lookup.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rocattach {
namespace {

// glibc's library files: libNAME.so.SONAME, or libNAME-2.VERSION.so before 2.34.
bool IsGlibcFile(absl::string_view file, absl::string_view soname,
                 absl::string_view versioned_prefix) {
  return file == soname ||
         (absl::StartsWith(file, versioned_prefix) && absl::EndsWith(file, ".so"));
}

struct GlibcLibrary {
  absl::string_view soname;
  absl::string_view versioned_prefix;
};

// In the order in which they are searched for a function.
constexpr std::array<GlibcLibrary, 3> kLibraries = {{
    {"libc.so.6", "libc-2."},
    {"libdl.so.2", "libdl-2."},
    {"libpthread.so.0", "libpthread-2."},
}};

// The executable mapping of one library. Several mappings of one load (mprotect splits
// them) have the same distance between address and offset; two loads do not.
StepResult FindLibrary(const Maps& maps, const GlibcLibrary& library,
                       const Mapping** found) {
  *found = nullptr;
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.executable || !mapping.is_file()) continue;
    if (!IsGlibcFile(mapping.basename(), library.soname, library.versioned_prefix)) {
      continue;
    }
    if (*found == nullptr) {
      *found = &mapping;
    } else if (!mapping.SameFile(**found) ||
               mapping.start - mapping.offset != (*found)->start - (*found)->offset) {
      return AttachFailure{
          AttachReason::kNoDlopen, 0,
          absl::StrCat("the target has loaded ", library.soname,
                       " twice: ", (*found)->path, " and ", mapping.path,
                       "; which of them the window belongs to is not known")};
    }
  }
  return StepOk();
}

void AddLibraryState(const std::shared_ptr<const LibraryFacts>& library, uint64_t bias,
                     LibcState* state) {
  const LibraryFacts& facts = *library;
  if (state->loader_state_slot.is_null() && facts.loader_state_slot != 0) {
    state->loader_state_slot = RemoteAddress(facts.loader_state_slot + bias);
    state->facts = library;
  }
  if (state->malloc_slot.is_null() && facts.malloc_slot != 0) {
    state->malloc_slot = RemoteAddress(facts.malloc_slot + bias);
  }
  for (uint64_t address : facts.signal_returns) {
    state->signal_returns.push_back(RemoteAddress(address + bias));
  }
}

StepResult AddLibraryFunctions(pid_t pid, const Maps& maps, const Mapping& mapping,
                               LibraryCache* cache,
                               std::vector<RemoteAddress>* addresses,
                               LibcState* state) {
  auto facts = LoadLibraryFacts(pid, mapping, cache);
  if (!facts.ok()) return FailureFromStatus(facts.status(), AttachReason::kBadElf);
  auto bias = LoadBias(**facts, mapping);
  if (!bias.ok()) {
    return FailureFromStatus(bias.status(), AttachReason::kBadElf);
  }
  AddLibraryState(*facts, *bias, state);
  for (size_t i = 0; i < addresses->size(); ++i) {
    if (!(*addresses)[i].is_null() || (*facts)->functions[i] == 0) continue;
    RemoteAddress address((*facts)->functions[i] + *bias);
    const Mapping* around = maps.Find(address);
    if (around == nullptr || !around->executable || !around->SameFile(mapping)) {
      return AttachFailure{AttachReason::kBadElf, 0,
                           absl::StrCat(mapping.path, ": ",
                                        LibcFunctionName(static_cast<LibcFunction>(i)),
                                        " is outside its executable mapping")};
    }
    (*addresses)[i] = address;
  }
  return StepOk();
}

}  // namespace

bool HaveTheirCode(const LoaderFunctions& functions, const Maps& maps,
                   const TargetMemory& memory) {
  const std::array<RemoteAddress, static_cast<size_t>(LibcFunction::kCount)> all = {
      functions.dlopen,         functions.dlsym,         functions.dlerror,
      functions.errno_location, functions.mutex_trylock, functions.mutex_unlock};
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= kRequiredLibcFunctions && all[i].is_null()) continue;
    const Mapping* mapping = maps.Find(all[i]);
    if (mapping == nullptr || mapping->facts == nullptr) return false;
    LibraryFacts::Code code;
    if (!memory.Read(all[i], code.data(), code.size()).ok() ||
        code != mapping->facts->code[i]) {
      return false;
    }
  }
  return true;
}

bool IsGlibcLibrary(absl::string_view basename) {
  for (const GlibcLibrary& library : kLibraries) {
    if (IsGlibcFile(basename, library.soname, library.versioned_prefix)) return true;
  }
  return false;
}

bool IsLoaderOrGlibc(absl::string_view basename) {
  return IsGlibcLibrary(basename) || absl::StartsWith(basename, "ld-linux-x86-64.so") ||
         absl::StartsWith(basename, "ld-2.");
}

bool IsLibcName(absl::string_view basename) {
  return IsGlibcFile(basename, kLibraries[0].soname, kLibraries[0].versioned_prefix);
}

StepResult FindLoaderFunctions(pid_t pid, const Maps& maps, LibraryCache* cache,
                               LoaderFunctions* functions, LibcState* state) {
  std::vector<RemoteAddress> found(static_cast<size_t>(LibcFunction::kCount));
  LibcState found_state;
  auto first_missing = [&found] {
    size_t i = 0;
    while (i < found.size() && !found[i].is_null()) ++i;
    return i;
  };
  bool has_libc = false;
  for (const GlibcLibrary& library : kLibraries) {
    const Mapping* mapping;
    RETURN_IF_FAILED(FindLibrary(maps, library, &mapping));
    if (mapping == nullptr) continue;
    if (library.soname == kLibraries[0].soname) has_libc = true;
    RETURN_IF_FAILED(
        AddLibraryFunctions(pid, maps, *mapping, cache, &found, &found_state));
    if (first_missing() == found.size()) break;
  }
  if (!has_libc) {
    return AttachFailure{AttachReason::kNoDlopen, 0,
                         "the target has no libc.so.6: it is statically linked or uses "
                         "another C library than glibc"};
  }
  if (size_t i = first_missing(); i < kRequiredLibcFunctions) {
    return AttachFailure{AttachReason::kNoDlopen, 0,
                         absl::StrCat("neither libc nor libdl of the target exports ",
                                      LibcFunctionName(static_cast<LibcFunction>(i)))};
  }
  *functions = {found[0], found[1], found[2], found[3], found[4], found[5]};
  if (found[4].is_null() || found[5].is_null()) {
    functions->mutex_trylock = functions->mutex_unlock = RemoteAddress();
  }
  if (state != nullptr) *state = std::move(found_state);
  return StepOk();
}

}  // namespace rocattach
