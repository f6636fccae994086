#include "userspace/record/drain/target_dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/record/collector_bytes.h"
#include "tests/unit/record/process_stream_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::SizeIs;

class TargetDictionaryTest : public ProcessStreamTest {
 protected:
  void SetUp() override {
    ProcessStreamTest::SetUp();
    dictionary_ = NewDictionary();
  }
  std::unique_ptr<TargetDictionary> NewDictionary() {
    return std::make_unique<TargetDictionary>(process_, &*output_, &*session_, user_);
  }
  // Adds kernels with long names until one is refused. Returns how many were kept.
  static uint32_t Fill(TargetDictionary* dictionary) {
    const std::string name(60'000, 'k');
    uint32_t kept = 0;
    while (kept < 10'000) {
      dictionary->AddEntry(KernelEntry(kept + 1, name));
      if (dictionary->refused() != 0) break;
      ++kept;
    }
    return kept;
  }

  const std::shared_ptr<UserMemory> user_ = std::make_shared<UserMemory>();
  std::unique_ptr<TargetDictionary> dictionary_;
};

TEST_F(TargetDictionaryTest, EntriesGoToTheStream) {
  dictionary_->AddEntry(AgentEntry(1, "gfx90a"));
  dictionary_->AddEntry(QueueEntry(2));
  dictionary_->AddEntry(KernelEntry(3, "gemm"));
  dictionary_->AddEntry(EntryBytes<rocattach_code_object_entry>(
      4, ROCATTACH_ENTRY_CODE_OBJECT, "file:///a.co"));
  const KeepingVisitor::Stream stream = Finish();
  EXPECT_EQ(stream.agents.at(1).name(), "gfx90a");
  EXPECT_THAT(stream.queues, ElementsAre(Key(2)));
  EXPECT_EQ(stream.kernels.at(3).name(), "gemm");
  EXPECT_EQ(stream.code_objects.at(4).uri(), "file:///a.co");
  EXPECT_EQ(dictionary_->malformed() + dictionary_->refused(), 0u);
}

TEST_F(TargetDictionaryTest, TheSessionKnowsAgentsAndFunctions) {
  rocattach_agent_entry gpu = {};
  gpu.entry.id = 1;
  gpu.type = 2;
  dictionary_->AddEntry(EntryBytes(gpu, ROCATTACH_ENTRY_AGENT, "gfx90a"));
  dictionary_->AddEntry(EntryBytes<rocattach_function_entry>(
      1, ROCATTACH_ENTRY_FUNCTION, "hsa_queue_create"));
  fake_.control()->backend = ROCATTACH_BACKEND_SDK;
  // A process is not described before its dictionary was read.
  memory_->Snapshot();
  ASSERT_THAT(memory_->NewEntries(), IsEmpty());
  const auto description = session_->Describe("");
  ASSERT_TRUE(description.has_value());
  ASSERT_THAT(description->gpus, SizeIs(1));
  EXPECT_EQ(description->gpus[0].agent_id, 1u);
  EXPECT_THAT(description->functions, SizeIs(1));
}

TEST_F(TargetDictionaryTest, TheLargestIdsCount) {
  EXPECT_EQ(dictionary_->max_agent(), 0u);
  for (uint32_t id : {3u, 9u, 2u}) {
    dictionary_->AddEntry(AgentEntry(id, "gfx90a"));
    dictionary_->AddEntry(QueueEntry(id + 1));
    dictionary_->AddEntry(KernelEntry(id + 2, "gemm"));
  }
  EXPECT_EQ(dictionary_->max_agent(), 9u);
  EXPECT_EQ(dictionary_->max_queue(), 10u);
  EXPECT_EQ(dictionary_->max_kernel(), 11u);
}

TEST_F(TargetDictionaryTest, EntriesThatCannotBeDecodedAreCountedAndLeftOut) {
  dictionary_->AddEntry({});
  dictionary_->AddEntry({1, 2, 3});
  std::vector<uint8_t> cut = KernelEntry(5, "gemm");
  cut.resize(cut.size() - 8);
  dictionary_->AddEntry(cut);
  EXPECT_EQ(dictionary_->malformed(), 3u);
  EXPECT_EQ(dictionary_->refused(), 0u);
  EXPECT_EQ(dictionary_->max_kernel(), 0u);
  EXPECT_THAT(Finish().kernels, IsEmpty());
}

TEST_F(TargetDictionaryTest, TheMemoryForNamesOfAProcessIsLimited) {
  const uint32_t kept = Fill(dictionary_.get());
  // Each name is kept twice.
  EXPECT_EQ(kept, kMaxDictionaryBytes /
                      (2 * KernelEntry(1, std::string(60'000, 'k')).size() + 48));
  EXPECT_LE(user_->dictionary_bytes, kMaxDictionaryBytes);
  // Dispatches of the refused kernel have no name.
  EXPECT_EQ(dictionary_->max_kernel(), kept);
  // A short name still fits, and entries of other kinds have room of their own.
  dictionary_->AddEntry(KernelEntry(kept + 2, "gemm"));
  dictionary_->AddEntry(AgentEntry(1, "gfx90a"));
  dictionary_->AddEntry(QueueEntry(1));
  EXPECT_EQ(dictionary_->refused(), 1u);
  const KeepingVisitor::Stream stream = Finish();
  EXPECT_THAT(stream.kernels, SizeIs(kept + 1));
  EXPECT_THAT(stream.agents, SizeIs(1));
  EXPECT_THAT(stream.queues, SizeIs(1));
}

TEST_F(TargetDictionaryTest, AUsersProcessesShareALimit) {
  const uint32_t first = Fill(dictionary_.get());
  const auto second = NewDictionary();
  const uint32_t rest = Fill(second.get());
  EXPECT_GT(rest, 0u);
  EXPECT_LT(rest, first);
  EXPECT_LE(user_->dictionary_bytes, kMaxUserDictionaryBytes);
  // The memory of a process is available again when the process is gone.
  dictionary_.reset();
  EXPECT_EQ(Fill(NewDictionary().get()), first);
}

// But each process has room for its agents, its queues and the functions it calls.
TEST_F(TargetDictionaryTest, AUsersProcessesShareALimitOfQueues) {
  std::vector<std::unique_ptr<TargetDictionary>> dictionaries;
  for (int i = 0; i < 40; ++i) {
    dictionaries.push_back(NewDictionary());
    uint32_t id = 0;
    while (dictionaries.back()->refused() == 0 && id < 100'000) {
      dictionaries.back()->AddEntry(QueueEntry(++id));
    }
    EXPECT_GE(id, (128u << 10) / (QueueEntry(1).size() + 48)) << i;
  }
  EXPECT_LE(user_->dictionary_bytes, kMaxUserDictionaryBytes + 40 * (128u << 10));
  dictionaries.clear();
  EXPECT_EQ(user_->dictionary_bytes, 0u);
}

TEST_F(TargetDictionaryTest, AgentsAndQueuesAreLimitedToo) {
  uint32_t id = 0;
  while (dictionary_->refused() == 0 && id < 100'000) {
    dictionary_->AddEntry(QueueEntry(++id));
  }
  EXPECT_EQ(id - 1, (1 << 20) / (QueueEntry(1).size() + 48));
  EXPECT_LE(user_->dictionary_bytes, 1u << 20);
  // Dispatches of a queue without a description are valid.
  EXPECT_EQ(dictionary_->max_queue(), id);
  EXPECT_THAT(Finish().queues, SizeIs(id - 1));
}

}  // namespace
}  // namespace rocattach
