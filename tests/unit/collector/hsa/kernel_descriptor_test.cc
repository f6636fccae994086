#include "userspace/collector/hsa/kernel_descriptor.h"

#include <gtest/gtest.h>

#include "userspace/collector/hsa/agents.h"

namespace rocattach::collector {
namespace {

KernelDescriptor Make(uint32_t vgpr_field, uint32_t sgpr_field, uint32_t accum_offset,
                      bool wave32 = false) {
  KernelDescriptor d = {};
  d.compute_pgm_rsrc1 = vgpr_field | sgpr_field << 6;
  d.compute_pgm_rsrc3 = accum_offset;
  d.kernel_code_properties = static_cast<uint16_t>(wave32 ? 1u << 10 : 0);
  return d;
}

TEST(KernelDescriptorTest, Gfx906) {
  KernelRegisters r = RegistersOf(Make(3, 2, 0), 0x906);
  EXPECT_EQ(r.arch_vgprs, 16);
  EXPECT_EQ(r.accum_vgprs, 0);
  EXPECT_EQ(r.sgprs, 32);
}

TEST(KernelDescriptorTest, Gfx908HasAsManyAccumulationRegisters) {
  KernelRegisters r = RegistersOf(Make(3, 12, 0), 0x908);
  EXPECT_EQ(r.arch_vgprs, 16);
  EXPECT_EQ(r.accum_vgprs, 16);
  EXPECT_EQ(r.sgprs, 112);
}

TEST(KernelDescriptorTest, Gfx90aSharesOneFile) {
  // 64 registers in all, accumulation registers from 24 on.
  KernelRegisters r = RegistersOf(Make(7, 4, 5), 0x90a);
  EXPECT_EQ(r.arch_vgprs, 24);
  EXPECT_EQ(r.accum_vgprs, 40);
  // An offset beyond the end means none.
  r = RegistersOf(Make(0, 0, 63), 0x942);
  EXPECT_EQ(r.arch_vgprs, 8);
  EXPECT_EQ(r.accum_vgprs, 0);
}

TEST(KernelDescriptorTest, Gfx10DependsOnTheWaveSize) {
  EXPECT_EQ(RegistersOf(Make(1, 0, 0, true), 0x1030).arch_vgprs, 16);
  EXPECT_EQ(RegistersOf(Make(1, 0, 0, false), 0x1100).arch_vgprs, 8);
}

TEST(KernelDescriptorTest, UnknownArchitecturesClaimNothing) {
  KernelRegisters r = RegistersOf(Make(3, 3, 3), 0);
  EXPECT_EQ(r.arch_vgprs, 0);
  EXPECT_EQ(r.sgprs, 0);
}

TEST(ParseGfxTest, ReadsNames) {
  EXPECT_EQ(ParseGfx("gfx906"), 0x906);
  EXPECT_EQ(ParseGfx("gfx90a"), 0x90a);
  EXPECT_EQ(ParseGfx("gfx1100"), 0x1100);
  EXPECT_EQ(ParseGfx("gfx90a:sramecc+:xnack-"), 0x90a);
  EXPECT_EQ(ParseGfx("AMD EPYC"), 0);
  EXPECT_EQ(ParseGfx("gfx"), 0);
  EXPECT_EQ(ParseGfx("gfx123456"), 0);
}

}  // namespace
}  // namespace rocattach::collector
