// Register use from a kernel's descriptor.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_KERNEL_DESCRIPTOR_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_KERNEL_DESCRIPTOR_H_

#include <stdint.h>

namespace rocattach::collector {

// The 64 bytes that a kernel object points to since code object version 3
// (LLVM, "User Guide for AMDGPU Backend", Kernel Descriptor).
struct KernelDescriptor {
  uint32_t group_segment_fixed_size;
  uint32_t private_segment_fixed_size;
  uint32_t kernarg_size;
  uint8_t reserved0[4];
  int64_t kernel_code_entry_byte_offset;
  uint8_t reserved1[20];
  uint32_t compute_pgm_rsrc3;
  uint32_t compute_pgm_rsrc1;
  uint32_t compute_pgm_rsrc2;
  uint16_t kernel_code_properties;
  uint8_t reserved2[6];
};
static_assert(sizeof(KernelDescriptor) == 64, "ABI");

// Registers allocated to a wave, per lane for VGPRs. 0: not known.
struct KernelRegisters {
  uint16_t sgprs = 0;
  uint16_t arch_vgprs = 0;
  uint16_t accum_vgprs = 0;
};

// `gfx` as from ParseGfx(). The descriptor holds counts of allocation granules minus
// one, and the granule depends on the architecture.
inline KernelRegisters RegistersOf(const KernelDescriptor& d, uint16_t gfx) {
  KernelRegisters r;
  uint32_t vgpr_granules = (d.compute_pgm_rsrc1 & 0x3f) + 1;
  uint32_t sgpr_field = (d.compute_pgm_rsrc1 >> 6) & 0xf;
  bool unified = gfx == 0x90a || (gfx >= 0x940 && gfx <= 0x95f);
  if (gfx >= 0x1000) {
    bool wave32 = (d.kernel_code_properties & (1u << 10)) != 0;
    r.arch_vgprs = static_cast<uint16_t>(vgpr_granules * (wave32 ? 8 : 4));
    r.sgprs = 128;  // fixed since gfx10; the field is reserved
  } else if (gfx >= 0x900) {
    // SGPRs are allocated in units of 16; the field counts units of 8.
    r.sgprs = static_cast<uint16_t>((sgpr_field / 2 + 1) * 16);
    if (unified) {
      // One file for both kinds: accumulation registers start at ACCUM_OFFSET.
      uint32_t total = vgpr_granules * 8;
      uint32_t arch = ((d.compute_pgm_rsrc3 & 0x3f) + 1) * 4;
      r.arch_vgprs = static_cast<uint16_t>(arch < total ? arch : total);
      r.accum_vgprs = static_cast<uint16_t>(arch < total ? total - arch : 0);
    } else {
      r.arch_vgprs = static_cast<uint16_t>(vgpr_granules * 4);
      r.accum_vgprs = gfx == 0x908 ? r.arch_vgprs : 0;
    }
  }
  return r;
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_KERNEL_DESCRIPTOR_H_
