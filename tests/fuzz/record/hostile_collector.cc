#include "tests/fuzz/record/hostile_collector.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "tests/fuzz/record/commands.h"

namespace rocattach {
namespace {

constexpr uint64_t kPage = 4096;

template <typename Record>
void SetIn(uint8_t* record, size_t offset, Record value) {
  memcpy(record + offset, &value, sizeof(value));
}

}  // namespace

void HostileCollector::Write(FuzzInput* input) {
  const absl::Span<uint8_t> memory = fake_.bytes();
  const size_t at = input->Read<uint32_t>() % memory.size();
  const auto bytes = input->ReadBytes(input->Read<uint8_t>());
  memcpy(memory.data() + at, bytes.data(), std::min(bytes.size(), memory.size() - at));
}

uint64_t* HostileCollector::Field(FuzzInput* input) {
  const auto part = static_cast<FuzzPart>(input->Read<uint8_t>() %
                                          static_cast<uint8_t>(FuzzPart::kCount));
  const size_t word = input->Read<uint8_t>();
  constexpr size_t kWord = sizeof(uint64_t);
  constexpr size_t kRingWords = ROCATTACH_RING_HEADER_BYTES / kWord;
  auto* const control = reinterpret_cast<uint64_t*>(fake_.control());
  switch (part) {
    case FuzzPart::kFirstRing:
    case FuzzPart::kSecondRing:
      return reinterpret_cast<uint64_t*>(
                 fake_.ring(part == FuzzPart::kFirstRing ? 0 : 1)) +
             word % kRingWords;
    case FuzzPart::kAnswer: {
      // The fields of the answer, and the words around them.
      constexpr size_t kFirst = offsetof(rocattach_control, backend) / kWord;
      constexpr size_t kEnd = offsetof(rocattach_control, service_mapped) / kWord;
      return control + kFirst + word % (kEnd - kFirst);
    }
    default:
      return control + word % (sizeof(rocattach_control) / kWord);
  }
}

void HostileCollector::SetField(FuzzInput* input) {
  uint64_t* const field = Field(input);
  *field = input->Read<uint64_t>();
}

void HostileCollector::AddToField(FuzzInput* input) {
  uint64_t* const field = Field(input);
  *field += static_cast<uint64_t>(int64_t{input->Read<int8_t>()});
}

void HostileCollector::PunchHole(FuzzInput* input) {
  const uint64_t page = input->Read<uint8_t>() % (fake_.bytes().size() / kPage);
  (void)fallocate(fake_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(page * kPage), kPage);
}

void HostileCollector::Stamp(uint8_t* record) {
  const uint64_t generation = Generation();
  const auto tag = static_cast<uint32_t>(ROCATTACH_PLAN_TAG(generation));
  uint16_t kind = 0, flags = 0;
  memcpy(&kind, record, sizeof(kind));
  memcpy(&flags, record + offsetof(rocattach_dispatch, flags), sizeof(flags));
  switch (kind) {
    case ROCATTACH_RECORD_DISPATCH:
    case ROCATTACH_RECORD_COPY:
      flags = static_cast<uint16_t>((flags & 0x1ff) | tag << 9);
      return SetIn(record, offsetof(rocattach_dispatch, flags), flags);
    case ROCATTACH_RECORD_VALUES:
      return SetIn(record, offsetof(rocattach_values, plan_generation), generation);
    case ROCATTACH_RECORD_SAMPLE:
      return SetIn(record, offsetof(rocattach_sample, plan_generation), generation);
    case ROCATTACH_RECORD_API:
      return SetIn(record, offsetof(rocattach_api_call, plan_tag), tag);
    case ROCATTACH_RECORD_MEMORY:
      return SetIn(record, offsetof(rocattach_memory, plan_tag), tag);
    default:
      return;
  }
}

void HostileCollector::PublishOne(uint32_t index, const uint8_t* record) {
  rocattach_ring* const ring = fake_.ring(index);
  if (ring->head - ring->tail < FakeCollector::kSlots) {
    return fake_.Publish(index, record);
  }
  uint16_t kind = 0;
  memcpy(&kind, record, sizeof(kind));
  ++ring->dropped;
  if (kind == ROCATTACH_RECORD_DISPATCH) ++ring->dispatches_seen;
  if (kind == ROCATTACH_RECORD_DISPATCH) ++ring->dispatches_dropped;
  if (kind == ROCATTACH_RECORD_COPY) ++ring->copies_seen;
  if (kind == ROCATTACH_RECORD_COPY) ++ring->copies_dropped;
}

void HostileCollector::Publish(FuzzInput* input) {
  const auto where = input->Read<uint8_t>();
  const unsigned times = input->Read<uint8_t>() % FakeCollector::kSlots + 1;
  auto record = input->Read<rocattach_dispatch>();
  auto* const bytes = reinterpret_cast<uint8_t*>(&record);
  if ((where & kFuzzStamped) != 0) Stamp(bytes);
  for (unsigned i = 0; i < times; ++i) {
    PublishOne(where % FakeCollector::kRings, bytes);
    if (record.kind == ROCATTACH_RECORD_DISPATCH ||
        record.kind == ROCATTACH_RECORD_COPY) {
      ++record.correlation_id;
    }
  }
}

void HostileCollector::AddEntry(FuzzInput* input) {
  rocattach_entry head = {};
  head.kind = input->Read<uint8_t>();
  head.id = input->Read<uint32_t>();
  head.text_bytes = input->Read<uint16_t>();
  const auto rest = input->ReadBytes(input->Read<uint8_t>());
  std::vector<uint8_t> entry((sizeof(head) + rest.size() + 7) / 8 * 8);
  head.bytes = static_cast<uint32_t>(entry.size());
  memcpy(entry.data(), &head, sizeof(head));
  memcpy(entry.data() + sizeof(head), rest.data(), rest.size());
  rocattach_control* const control = fake_.control();
  const uint64_t used = control->dictionary_used;
  if (used > FakeCollector::kDictionaryBytes ||
      FakeCollector::kDictionaryBytes - used < entry.size()) {
    ++control->dictionary_dropped;
    return;
  }
  fake_.AddEntry(entry);
}

void HostileCollector::AddInflight(FuzzInput* input) {
  const uint32_t place = input->Read<uint8_t>() % FakeCollector::kInflight;
  *fake_.inflight(place) = input->Read<rocattach_inflight>();
  rocattach_ring* const ring = fake_.ring(0);
  const uint16_t kind = fake_.inflight(place)->kind;
  if (kind == ROCATTACH_RECORD_DISPATCH) ++ring->dispatches_seen;
  if (kind == ROCATTACH_RECORD_COPY) ++ring->copies_seen;
  if (ring->inflight < INT64_MAX) ++ring->inflight;
}

void HostileCollector::Answer(FuzzInput* input) {
  rocattach_control* const control = fake_.control();
  control->plan_error = input->Read<uint8_t>();
  control->plan_error_counter = input->Read<uint8_t>();
  control->plan_acked = Generation();
}

std::vector<bool> HostileCollector::PagesWithContents() const {
  const collector::Geometry& geometry = fake_.geometry();
  std::vector<bool> pages;
  for (uint64_t at = geometry.rings_offset; at < geometry.plan_offset; at += kPage) {
    // The header of a ring is mapped and written to.
    const bool header = at < geometry.inflight_offset &&
                        (at - geometry.rings_offset) % geometry.ring_stride == 0;
    const auto offset = static_cast<off_t>(at);
    pages.push_back(header || lseek(fake_.fd(), offset, SEEK_DATA) == offset);
  }
  return pages;
}

}  // namespace rocattach
