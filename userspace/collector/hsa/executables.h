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

  // Reads all executables that exist, in a late attach. No executable
  // may be destroyed meanwhile.
  void LoadedBefore();
  // The agent of a kernel that LoadedBefore() or, after that, Frozen() has read;
  // nullptr if it is not known.
  const Agent* AgentOf(uint64_t kernel_object) const;
  // The runtime has shut down.
  void Forget() { agents_of_kernels_.Forget(); }
  // Executables may have been destroyed without our knowledge.
  void EraseAll() {
    kernels_->EraseAll();
    agents_of_kernels_.EraseAll();
  }

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
  // A kernel that has been read, except for its registers.
  struct Kernel {
    rocattach_kernel_entry entry;
    uint16_t gfx;
    uint32_t name_bytes;
  };
  class Backlog;

  static hsa_status_t VisitExecutable(hsa_executable_t executable, void* data);
  void Read(hsa_executable_t executable, Reading* reading);
  static hsa_status_t VisitCodeObject(hsa_executable_t executable,
                                      hsa_loaded_code_object_t code_object, void* data);
  static hsa_status_t VisitSymbol(hsa_executable_t executable, hsa_agent_t agent,
                                  hsa_executable_symbol_t symbol, void* data);
  void AddCodeObject(Reading* reading, hsa_loaded_code_object_t code_object);
  void AddKernel(const Reading& reading, const Agent& agent,
                 hsa_executable_symbol_t symbol, uint64_t kernel_object);
  // `may_be_gone`: the kernel's executable may be destroyed meanwhile.
  void ReadRegisters(Kernel* kernel, bool may_be_gone);
  void Publish(Kernel* kernel, const char* name);

  const HsaFunctions* hsa_ = nullptr;
  const Agents* agents_ = nullptr;
  Dictionary* dictionary_ = nullptr;
  KernelTable* kernels_ = nullptr;
  hsa_ven_amd_loader_1_03_pfn_t loader_ = {};
  // Filled in late attaches only.
  bool keep_agents_ = false;
  KernelTable agents_of_kernels_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_EXECUTABLES_H_
