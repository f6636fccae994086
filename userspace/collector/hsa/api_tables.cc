#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {

bool AmdSlotsForSize(uint32_t amd_ext_bytes, AmdSlots* slots) {
  AmdSlots s;
  switch (amd_ext_bytes) {
    case 400:  // ROCm 4.5 to 5.4
    case 424:  // 5.5
      break;
    case 456:  // 5.6 and 5.7
    case 552:  // 6.0
    case 560:  // 6.1
    case 576:  // 6.2
    case 584:  // 6.3, late 2024
    case 608:  // 7.0, August 2025
      s.memory_async_copy_on_engine = 16;
      s.agents_allow_access += 2;
      s.pointer_info += 2;
      s.queue_intercept_create += 2;
      s.queue_intercept_register += 2;
      s.memory_async_copy_rect += 2;
      s.intercept_overflow_asserts = amd_ext_bytes <= 456;
      break;
    default:
      return false;
  }
  *slots = s;
  return true;
}

const char* CheckTables(const ApiTableRoot* root, AmdSlots* slots) {
  if (root == nullptr || root->version.minor_id < sizeof(ApiTableRoot)) {
    return "the runtime's API table is too small";
  }
  if (root->core == nullptr || root->amd_ext == nullptr) {
    return "the runtime passes no core or no AMD extension table";
  }
  // Majors are 1 up to ROCm 5.7 and 2 since then.
  uint32_t core_major = root->core->version.major_id;
  uint32_t amd_major = root->amd_ext->version.major_id;
  if (core_major < 1 || core_major > 2 || amd_major < 1 || amd_major > 2) {
    return "the runtime's API tables have an unknown major version";
  }
  if (root->core->version.minor_id != kCoreTableBytes) {
    return "the runtime's core API table has an unknown size";
  }
  if (!AmdSlotsForSize(root->amd_ext->version.minor_id, slots)) {
    return "the runtime's AMD extension table has an unknown size";
  }
  return nullptr;
}

}  // namespace rocattach::collector
