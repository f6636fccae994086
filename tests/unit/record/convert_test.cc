#include "userspace/record/drain/convert.h"

#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "injector/attach_reasons.h"

namespace rocattach {
namespace {

// Numbers and names of the stream are those of the injector.
TEST(Convert, ReasonsAreThoseOfTheStream) {
  for (const AttachReasonEntry& entry : AttachReasons()) {
    const auto value = static_cast<v1::AttachReason>(entry.reason);
    ASSERT_TRUE(v1::AttachReason_IsValid(value)) << entry.name;
    EXPECT_EQ(v1::AttachReason_Name(value),
              absl::StrCat("ATTACH_REASON_",
                           absl::StrReplaceAll(absl::AsciiStrToUpper(entry.name),
                                               {{"-", "_"}})));
  }
  EXPECT_EQ(int{v1::AttachReason_MAX}, static_cast<int>(AttachReasons().back().reason));
}

TEST(Convert, AgentTextHoldsTwoNames) {
  rocattach_agent_entry entry = {};
  entry.entry.id = 3;
  entry.type = 2;
  entry.compute_units = 104;
  entry.pci_bdf = 0x300;
  entry.xccs = 6;
  entry.family_id = 141;
  entry.workgroup_max_size = 1024;
  entry.grid_max_size = 1u << 31;
  for (uint32_t i = 0; i < 3; ++i) entry.workgroup_max[i] = 100 * (i + 1);
  memset(entry.uuid, 'x', sizeof(entry.uuid));  // not terminated
  v1::Agent agent = AgentToProto(entry, absl::string_view("gfx90a\0MI200\0junk", 17));
  EXPECT_EQ(agent.id(), 3u);
  EXPECT_EQ(agent.type(), v1::AGENT_TYPE_GPU);
  EXPECT_EQ(agent.name(), "gfx90a");
  EXPECT_EQ(agent.product_name(), "MI200");
  EXPECT_EQ(agent.compute_units(), 104u);
  EXPECT_EQ(agent.xccs(), 6u);
  EXPECT_EQ(agent.family_id(), 141u);
  EXPECT_EQ(agent.workgroup_max_size(), 1024u);
  EXPECT_EQ(agent.grid_max_size(), 1u << 31);
  ASSERT_EQ(agent.workgroup_max_dimensions_size(), 3);
  EXPECT_EQ(agent.workgroup_max_dimensions(2), 300u);
  EXPECT_EQ(agent.grid_max_dimensions_size(), 0) << "not known";
  EXPECT_EQ(agent.uuid().size(), sizeof(entry.uuid));
  entry.type = 77;
  EXPECT_EQ(AgentToProto(entry, "gfx").type(), v1::AGENT_TYPE_UNKNOWN);
}

TEST(Convert, KernelKeepsItsResources) {
  rocattach_kernel_entry entry = {};
  entry.entry.id = 9;
  entry.lds_bytes = 4096;
  entry.sgprs = 32;
  entry.arch_vgprs = 64;
  entry.accum_vgprs = 8;
  v1::Kernel kernel = KernelToProto(entry, "_Z4vaddPf");
  EXPECT_EQ(kernel.id(), 9u);
  EXPECT_EQ(kernel.name(), "_Z4vaddPf");
  EXPECT_EQ(kernel.lds_bytes(), 4096u);
  EXPECT_EQ(kernel.sgprs(), 32u);
  EXPECT_EQ(kernel.arch_vgprs(), 64u);
  EXPECT_EQ(kernel.accum_vgprs(), 8u);
}

TEST(Convert, OutcomeKeepsStageReasonAndTimes) {
  AttachOutcome outcome;
  outcome.stage = AttachStage::kSeize;
  outcome.reason = AttachReason::kAlreadyTraced;
  outcome.error = 1;
  outcome.retryable = true;
  outcome.detail = "ptrace(PTRACE_SEIZE, 42)";
  outcome.seized_ns = 5;
  v1::WindowEvent event;
  FillOutcome(outcome, &event);
  EXPECT_EQ(event.stage(), v1::ATTACH_STAGE_SEIZE);
  EXPECT_EQ(event.reason(), v1::ATTACH_REASON_ALREADY_TRACED);
  EXPECT_EQ(event.error(), 1u);
  EXPECT_TRUE(event.retryable());
  EXPECT_FALSE(event.target_modified());
  EXPECT_EQ(event.detail(), "ptrace(PTRACE_SEIZE, 42)");
  EXPECT_EQ(event.seized_ns(), 5u);
}

TEST(Convert, RefusalTextIsBounded) {
  rocattach_control control = {};
  memset(control.text, 'x', sizeof(control.text));  // not terminated
  EXPECT_EQ(CollectorToProto(control).refusal(), "") << "it did not refuse";
  control.reason = ROCATTACH_REASON_NO_MEMORY;
  control.capture_mode = 2;
  v1::Collector collector = CollectorToProto(control);
  EXPECT_EQ(collector.refusal().size(), sizeof(control.text));
  EXPECT_EQ(collector.capture_mode(), v1::CAPTURE_MODE_INTERCEPT);
}

TEST(Convert, WaitStatus) {
  v1::ProcessEnd end = EndFromWaitStatus(3 << 8);
  EXPECT_EQ(end.how(), v1::ProcessEnd::EXITED);
  EXPECT_EQ(end.exit_code(), 3u);
  end = EndFromWaitStatus(9);
  EXPECT_EQ(end.how(), v1::ProcessEnd::SIGNALLED);
  EXPECT_EQ(end.signal(), 9u);
  EXPECT_FALSE(end.core_dumped());
  EXPECT_TRUE(EndFromWaitStatus(11 | 0x80).core_dumped());
}

}  // namespace
}  // namespace rocattach
