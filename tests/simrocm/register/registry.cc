#include "tests/simrocm/register/registry.h"

#include <link.h>
#include <regex.h>

#include <cstring>

namespace simrocm {
namespace {

// The order determines the bits of a registration's id. System copies of the HSA
// runtime are named .so.1, which does not match: secure mode rejects them upstream too.
constexpr KnownLibrary kLibraries[] = {
    {"hsa", "libhsa-runtime64\\.so\\.[2-9]($|\\.[0-9.]+)"},
    {"hip", "libamdhip64\\.so\\.[6-9]($|\\.[0-9.]+)"},
    {"roctx", "libroctx64\\.so\\.[4-9]($|\\.[0-9.]+)"},
    {"hip_compiler", "libamdhip64\\.so\\.[6-9]($|\\.[0-9.]+)"},
    {"rccl", "librccl\\.so\\.[6-9]($|\\.[0-9.]+)"},
    {"rocdecode", "librocdecode\\.so\\.[0-9]($|\\.[0-9.]+)"},
    {"rocjpeg", "librocjpeg\\.so\\.[0-9]($|\\.[0-9.]+)"},
    {"rocattach", "librocprofiler-sdk-attach\\.so\\.[0-9]($|\\.[0-9.]+)"},
    {"hipFile", "libhipfile\\.so\\.[0-9]($|\\.[0-9.]+)"},
    {"rocshmem", "librocshmem\\.so\\.[0-9]($|\\.[0-9.]+)"},
};
constexpr unsigned kLibraryCount = sizeof(kLibraries) / sizeof(kLibraries[0]);

struct AddressSearch {
  uintptr_t address;
  const char* file;
};

int FindObject(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<AddressSearch*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (search->address < start || search->address - start >= segment.p_memsz) continue;
    search->file = info->dlpi_name;
    return 1;
  }
  return 0;
}

}  // namespace

const KnownLibrary* FindKnownLibrary(const char* name, unsigned* index) {
  for (unsigned i = 0; i < kLibraryCount; ++i) {
    if (strcmp(kLibraries[i].name, name) != 0) continue;
    *index = i;
    return &kLibraries[i];
  }
  return nullptr;
}

unsigned MaxInstances() {
  return 64 / (kLibraryCount > 8 ? kLibraryCount : 8);
}

bool ImportFunctionIsGenuine(const KnownLibrary& library,
                             rocattach_register_import_fn import_func) {
  AddressSearch search{reinterpret_cast<uintptr_t>(import_func), nullptr};
  if (dl_iterate_phdr(FindObject, &search) == 0) return false;
  const char* slash = strrchr(search.file, '/');
  const char* base = slash != nullptr ? slash + 1 : search.file;
  regex_t pattern;
  if (regcomp(&pattern, library.file_pattern, REG_EXTENDED | REG_NOSUB) != 0) {
    return false;
  }
  bool matches = regexec(&pattern, base, 0, nullptr, 0) == 0;
  regfree(&pattern);
  return matches;
}

rocattach_register_status Registry::Add(unsigned index, const char* name,
                                        uint32_t lib_version, void** tables,
                                        uint64_t table_count, rocattach_register_id* id,
                                        Registration** added) {
  if (instances_[index] >= MaxInstances()) {
    return ROCATTACH_REGISTER_EXCESS_API_INSTANCES;
  }
  auto* entry = new Registration;  // lives as long as the process
  entry->name = name;
  entry->lib_version = lib_version;
  entry->instance = instances_[index]++;
  entry->tables.assign(tables, tables + table_count);
  id->handle = MaxInstances() * index + entry->instance;
  bool first = entry->name == ROCATTACH_REGISTER_NAME_ATTACH;
  registrations_.insert(first ? registrations_.begin() : registrations_.end(), entry);
  if (added != nullptr) *added = entry;
  return ROCATTACH_REGISTER_SUCCESS;
}

bool Registry::Has(const char* name) const {
  for (const Registration* entry : registrations_) {
    if (entry->name == name) return true;
  }
  return false;
}

}  // namespace simrocm
