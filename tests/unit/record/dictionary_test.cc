#include "userspace/record/drain/dictionary.h"

#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "tests/unit/record/collector_bytes.h"

namespace rocattach {
namespace {

TEST(DecodeEntry, ReadsAnAgent) {
  rocattach_agent_entry agent = {};
  agent.entry.id = 2;
  agent.type = 2;
  agent.compute_units = 104;
  memcpy(agent.uuid, "GPU-0123456789abcdef", 20);
  auto entry = DecodeEntry(EntryBytes(agent, ROCATTACH_ENTRY_AGENT,
                                      absl::string_view("gfx90a\0MI\x01 250", 14)));
  ASSERT_TRUE(entry.ok()) << entry.status();
  const auto& decoded = std::get<v1::Agent>(*entry);
  EXPECT_EQ(decoded.id(), 2u);
  EXPECT_EQ(decoded.type(), v1::AGENT_TYPE_GPU);
  EXPECT_EQ(decoded.name(), "gfx90a");
  EXPECT_EQ(decoded.product_name(), "MI? 250");
  EXPECT_EQ(decoded.compute_units(), 104u);
  EXPECT_EQ(decoded.uuid(), "GPU-0123456789abcdef");
}

TEST(DecodeEntry, ReadsAKernel) {
  rocattach_kernel_entry kernel = {};
  kernel.entry.id = 7;
  kernel.arch_vgprs = 32;
  kernel.lds_bytes = 512;
  auto entry = DecodeEntry(EntryBytes(kernel, ROCATTACH_ENTRY_KERNEL, "_Z3addPf"));
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(std::get<v1::Kernel>(*entry).name(), "_Z3addPf");
  EXPECT_EQ(std::get<v1::Kernel>(*entry).arch_vgprs(), 32u);
}

TEST(DecodeEntry, RefusesContradictoryEntries) {
  rocattach_kernel_entry kernel = {};
  kernel.entry.id = 7;
  std::vector<uint8_t> good = EntryBytes(kernel, ROCATTACH_ENTRY_KERNEL, "name");
  for (size_t cut = 0; cut < sizeof(kernel) + 4; ++cut) {
    EXPECT_FALSE(DecodeEntry(absl::MakeSpan(good).subspan(0, cut)).ok()) << cut;
  }
  auto with = [&](auto change) {
    rocattach_kernel_entry copy = kernel;
    std::vector<uint8_t> bytes = EntryBytes(copy, ROCATTACH_ENTRY_KERNEL, "name");
    rocattach_entry head;
    memcpy(&head, bytes.data(), sizeof(head));
    change(&head);
    memcpy(bytes.data(), &head, sizeof(head));
    return DecodeEntry(bytes).ok();
  };
  EXPECT_FALSE(with([](rocattach_entry* e) { e->kind = 99; }));
  EXPECT_FALSE(with([](rocattach_entry* e) { e->id = 0; }));
  EXPECT_FALSE(with([](rocattach_entry* e) { e->id = 0xFFFFFFFF; }));
  EXPECT_FALSE(with([](rocattach_entry* e) { e->text_bytes = 0xFFFF; }));
  EXPECT_TRUE(with([](rocattach_entry*) {}));
}

TEST(CleanText, KeepsUtf8AndNothingElse) {
  EXPECT_EQ(CleanText("plain Grüße"), "plain Grüße");
  EXPECT_EQ(CleanText("\x1b[31mred\n"), "?[31mred?");
  EXPECT_EQ(CleanText("\xff\xc3"), "??");
  EXPECT_EQ(CleanText("\xed\xa0\x80"), "???");  // a surrogate
}

}  // namespace
}  // namespace rocattach
