// Code objects and kernels by rocprofiler-sdk's numbers.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_CODE_OBJECTS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_CODE_OBJECTS_H_

#include <stdint.h>

#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/sdk/agents.h"

namespace rocattach::collector {

// Turns code object callbacks into dictionary entries; these are always on, so that no
// kernel's name is missed. Callbacks of one executable come one after the other.
class SdkCodeObjects {
 public:
  void Init(const SdkAgents* agents, Dictionary* dictionary) {
    agents_ = agents;
    dictionary_ = dictionary;
  }

  void OnCallback(const rocattach_sdk_callback_record& record);

  // The SDK's kernel id -> dictionary id.
  const KernelTable* kernels() const { return &kernels_; }

 private:
  void AddCodeObject(const rocattach_sdk_code_object& object);
  void AddKernel(const rocattach_sdk_kernel_symbol& kernel);

  const SdkAgents* agents_ = nullptr;
  Dictionary* dictionary_ = nullptr;
  KernelTable kernels_;
  KernelTable objects_;    // the SDK's code object id -> dictionary id
  KernelTable agents_of_;  // dictionary id of a code object -> its agent's
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_CODE_OBJECTS_H_
