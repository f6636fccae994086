#include "userspace/collector/sdk/dimensions.h"

#include <string.h>

#include "userspace/abi/atomics.h"
#include "userspace/abi/records.h"

namespace rocattach::collector {
namespace {

struct DimensionField {
  const char* name;
  uint32_t shift, bits;
};

constexpr DimensionField kFields[] = {
    {"DIMENSION_INSTANCE", 0, ROCATTACH_INSTANCE_BITS},
    {"DIMENSION_WGP", ROCATTACH_INSTANCE_WGP_SHIFT, ROCATTACH_INSTANCE_WGP_BITS},
    {"DIMENSION_SHADER_ARRAY", ROCATTACH_INSTANCE_SHADER_ARRAY_SHIFT,
     ROCATTACH_INSTANCE_SHADER_ARRAY_BITS},
    {"DIMENSION_SHADER_ENGINE", ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT,
     ROCATTACH_INSTANCE_SHADER_ENGINE_BITS},
    {"DIMENSION_AID", ROCATTACH_INSTANCE_AID_SHIFT, ROCATTACH_INSTANCE_AID_BITS},
    {"DIMENSION_XCC", ROCATTACH_INSTANCE_XCC_SHIFT, ROCATTACH_INSTANCE_XCC_BITS},
};

}  // namespace

void SdkDimensions::Learn(const rocattach_sdk_functions& sdk,
                          rocattach_sdk_counter_id counter) {
  static_assert(sizeof(kFields) / sizeof(kFields[0]) == kDimensions);
  rocattach_sdk_counter_info_room info = {};
  if (sdk.query_counter_info(counter, ROCATTACH_SDK_COUNTER_INFO_VERSION_1, &info) !=
      ROCATTACH_SDK_STATUS_SUCCESS) {
    return;
  }
  for (uint64_t i = 0; i < info.info.dimensions_count; ++i) {
    const rocattach_sdk_dimension_info* dimension = info.info.dimensions[i];
    if (dimension == nullptr || dimension->name == nullptr) continue;
    for (uint32_t k = 0; k < kDimensions; ++k) {
      if (strcmp(dimension->name, kFields[k].name) == 0) {
        StoreRelaxed(&ids_[k], dimension->id);
      }
    }
  }
}

uint64_t SdkDimensions::Position(const rocattach_sdk_functions& sdk,
                                 rocattach_sdk_instance_id instance) const {
  uint64_t position = 0;
  for (uint32_t k = 0; k < kDimensions; ++k) {
    const rocattach_sdk_dimension_id id = LoadRelaxed(&ids_[k]);
    size_t at = 0;
    if (id == 0 || sdk.query_record_dimension_position(instance, id, &at) !=
                       ROCATTACH_SDK_STATUS_SUCCESS) {
      continue;
    }
    const uint64_t most = (uint64_t{1} << kFields[k].bits) - 1;
    position |= (at < most ? at : most) << kFields[k].shift;
  }
  return position;
}

}  // namespace rocattach::collector
