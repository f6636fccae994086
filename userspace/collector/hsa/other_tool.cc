#include "userspace/collector/hsa/other_tool.h"

#include <string.h>

#include "userspace/collector/hsa/elf_object.h"

namespace rocattach::collector {
namespace {

struct Search {
  ElfObject ours;
  bool have_ours;
  const char* name;
};

int LookForTool(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const ElfObject object(*info);
  const void* configure = object.Function("rocprofiler_configure").address;
  if (configure == nullptr || (search->have_ours && search->ours.Contains(configure))) {
    return 0;
  }
  search->name = object.name();
  return 1;
}

// The owner of a function in the table that is neither the runtime's nor ours.
const char* OwnerOfHooks(const ApiTable* core, const Search& search) {
  ElfObject runtime, owner;
  if (!ElfObject::Find(core, &runtime)) return nullptr;
  constexpr CoreSlot kSlots[] = {kCoreQueueCreate, kCoreSignalStoreScrelease,
                                 kCoreInit};
  for (CoreSlot slot : kSlots) {
    const void* function = core->slots[slot];
    if (runtime.Contains(function) ||
        (search.have_ours && search.ours.Contains(function))) {
      continue;
    }
    if (ElfObject::Find(function, &owner)) return owner.name();
  }
  return nullptr;
}

}  // namespace

void NameOtherTool(const ApiTable* core, char* text, size_t bytes) {
  Search search = {};
  search.have_ours =
      ElfObject::Find(reinterpret_cast<const void*>(&NameOtherTool), &search.ours);
  if (dl_iterate_phdr(&LookForTool, &search) == 0) {
    search.name = OwnerOfHooks(core, search);
  }
  const char* name = search.name != nullptr ? search.name : "";
  if (search.name != nullptr && *name == '\0') name = "the program itself";
  const size_t length = strnlen(name, bytes - 1);
  memcpy(text, name, length);
  text[length] = '\0';
}

}  // namespace rocattach::collector
