#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {
namespace {

bool CanBeBytes(uint32_t bytes, uint32_t least) {
  return bytes >= least && bytes <= kMostTableBytes && bytes % sizeof(void*) == 0;
}

}  // namespace

const char* CheckTables(const ApiTableRoot* root) {
  if (root == nullptr || root->version.minor_id < sizeof(ApiTableRoot)) {
    return "the runtime's API table is too small";
  }
  if (root->core == nullptr || root->amd_ext == nullptr) {
    return "the runtime passes no core or no AMD extension table";
  }
  if (!CanBeBytes(root->core->version.minor_id, kLeastCoreTableBytes)) {
    return "the runtime's core API table has an impossible size";
  }
  if (!CanBeBytes(root->amd_ext->version.minor_id, kLeastAmdTableBytes)) {
    return "the runtime's AMD extension table has an impossible size";
  }
  return nullptr;
}

}  // namespace rocattach::collector
