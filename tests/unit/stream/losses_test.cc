#include "userspace/stream/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Sets the account's field of this name to `value`.
void Set(v1::LossAccount* account, const std::string& field, uint64_t value) {
  account->GetReflection()->SetUInt64(
      account, account->GetDescriptor()->FindFieldByName(field), value);
}

std::vector<std::string> NamesOf(const v1::LossAccount& account) {
  std::vector<std::string> names;
  for (const Loss& loss : LossesOf(account)) names.emplace_back(loss.name);
  return names;
}

// Each field that the schema calls dropped or unseen is listed under its own reason.
TEST(Losses, EveryKindOfLossIsListed) {
  const google::protobuf::Descriptor* message = v1::LossAccount::descriptor();
  int fields = 0;
  for (int i = 0; i < message->field_count(); ++i) {
    const std::string field(message->field(i)->name());
    if (field.find("dropped") == std::string::npos && field != "packets_unseen") {
      continue;
    }
    ++fields;
    v1::LossAccount account;
    Set(&account, field, 7);
    const std::vector<Loss> losses = LossesOf(account);
    ASSERT_EQ(losses.size(), 1u) << field;
    EXPECT_EQ(losses[0].count, 7u) << field;
    EXPECT_FALSE(losses[0].name.empty() || losses[0].label.empty() ||
                 losses[0].clause.empty())
        << field;
  }
  EXPECT_EQ(fields, 11);
}

TEST(Losses, DeliveredAndSampledOutOperationsAreNotLost) {
  v1::LossAccount account;
  account.set_dispatches_seen(5);
  account.set_dispatches_delivered(3);
  account.set_sampled_out(2);
  account.set_untimed(1);
  account.set_unfinished(1);
  EXPECT_THAT(LossesOf(account), IsEmpty());
  EXPECT_EQ(LossText(account), "");
  EXPECT_EQ(LostRecords(account), 0u);
}

TEST(Losses, OperationsComeFirstAndAddUp) {
  v1::LossAccount account;
  account.set_api_calls_dropped(1);
  account.set_packets_unseen(306);
  account.set_dropped_writer(1000);
  account.set_dropped_ring_full(2);
  EXPECT_THAT(NamesOf(account),
              ElementsAre("ring_full", "writer", "unseen", "api_calls"));
  EXPECT_EQ(DroppedRecords(account), 1002u);
  EXPECT_EQ(LostRecords(account), 1308u);
  EXPECT_EQ(LossText(account),
            "2 ring full, 1,000 not written, 306 unseen, 1 API calls");
}

}  // namespace
}  // namespace rocattach
