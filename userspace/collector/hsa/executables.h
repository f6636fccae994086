// Kernels and code objects, learnt when an executable is frozen.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_EXECUTABLES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_EXECUTABLES_H_

#include <hsa/hsa_ven_amd_loader.h>

#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/hsa/agents.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

// Turns executables into dictionary entries and keeps the table of kernel objects.
class Executables {
 public:
  // All arguments must outlive this object. Looks up the loader extension.
  void Init(const HsaFunctions* hsa, const Agents* agents, Dictionary* dictionary,
            KernelTable* kernels);

  // After hsa_executable_freeze succeeded.
  void Frozen(hsa_executable_t executable);
  // Before hsa_executable_destroy: its addresses will belong to other kernels.
  void Destroying(hsa_executable_t executable);

 private:
  // Code objects of one executable, while it is being read.
  struct Loaded {
    uint64_t base;
    uint64_t bytes;
    uint32_t id;
  };
  struct Reading;

  static hsa_status_t VisitCodeObject(hsa_executable_t executable,
                                      hsa_loaded_code_object_t code_object, void* data);
  static hsa_status_t VisitSymbol(hsa_executable_t executable, hsa_agent_t agent,
                                  hsa_executable_symbol_t symbol, void* data);
  void AddCodeObject(Reading* reading, hsa_loaded_code_object_t code_object);
  void AddKernel(const Reading& reading, const Agent& agent,
                 hsa_executable_symbol_t symbol, uint64_t kernel_object);
  uint32_t AppendKernel(rocattach_kernel_entry* entry, hsa_executable_symbol_t symbol);

  const HsaFunctions* hsa_ = nullptr;
  const Agents* agents_ = nullptr;
  Dictionary* dictionary_ = nullptr;
  KernelTable* kernels_ = nullptr;
  hsa_ven_amd_loader_1_01_pfn_t loader_ = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_EXECUTABLES_H_
