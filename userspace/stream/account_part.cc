#include "userspace/stream/account_part.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>

#include "userspace/stream/record_kinds.h"

namespace rocattach {
namespace {

// Number of dispatches and copies that are not recorded; one count covers both.
uint64_t Lost(const v1::LossAccount& account) {
  return account.dropped_ring_full() + account.dropped_collector() +
         account.dropped_invalid() + account.dropped_inflight() + account.sampled_out();
}

// Sets each seen count to the number of operations delivered or lost.
void SettleSeen(const PerRecordKind<DeliveryCount>& counts, v1::LossAccount* account) {
  const DeliveryCount& dispatches = counts[RecordKind::kDispatch];
  const DeliveryCount& copies = counts[RecordKind::kCopy];
  account->set_dispatches_seen(dispatches.delivered + dispatches.dropped +
                               copies.dropped + Lost(*account));
  account->set_copies_seen(copies.delivered);
  const DeliveryCount& counted = counts[RecordKind::kCounter];
  account->set_counted_seen(counted.delivered + counted.dropped +
                            account->counted_dropped());
  const DeliveryCount& samples = counts[RecordKind::kSample];
  account->set_samples_seen(samples.delivered + samples.dropped +
                            account->samples_dropped());
  const DeliveryCount& calls = counts[RecordKind::kApiCall];
  account->set_api_calls_seen(calls.delivered + calls.dropped +
                              account->api_calls_dropped());
  const DeliveryCount& memory = counts[RecordKind::kMemory];
  account->set_memory_seen(memory.delivered + memory.dropped +
                           account->memory_dropped());
  account->set_inflight(0);
}

// True for a field that is not a count since the attach.
bool IsMoment(int field) {
  return field == v1::LossAccount::kTimeNsFieldNumber ||
         field == v1::LossAccount::kInflightFieldNumber;
}

}  // namespace

v1::LossAccount AccountPart::Of(const v1::LossAccount& account) const {
  v1::LossAccount part = account;
  const auto* fields = part.GetDescriptor();
  const auto* values = part.GetReflection();
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_UINT64 ||
        IsMoment(field->number())) {
      continue;
    }
    const uint64_t now = values->GetUInt64(part, field);
    const uint64_t before = values->GetUInt64(before_, field);
    values->SetUInt64(&part, field, now - std::min(now, before));
  }
  // Earlier parts counted their lost copies as dispatches, so they may have more
  // dispatches than `account`; the excess is subtracted from the copies instead.
  const uint64_t less = before_.dispatches_seen() -
                        std::min(before_.dispatches_seen(), account.dispatches_seen());
  part.set_copies_seen(part.copies_seen() - std::min(part.copies_seen(), less));
  return part;
}

v1::LossAccount AccountPart::End(v1::LossAccount account,
                                 const PerRecordKind<DeliveryCount>& counts) {
  account.clear_dropped_writer();
  SettleSeen(counts, &account);
  account.set_final(true);
  v1::LossAccount part = Of(account);
  before_ = std::move(account);
  return part;
}

void AddCounts(const PerRecordKind<DeliveryCount>& counts, v1::LossAccount* account) {
  ForEachRecordKind([&](auto kind) { kind.AddTo(counts[kind.kKind], account); });
}

}  // namespace rocattach
