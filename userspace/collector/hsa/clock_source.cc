#include "userspace/collector/hsa/clock_source.h"

namespace rocattach::collector {
namespace {

// Distance of the two points of a line: long enough for a slope accurate to a few parts
// per billion; 40 ms of a 100 MHz clock.
constexpr uint64_t kBaselineTicks = uint64_t{1} << 22;
// Differences below this are the time between two clock readings.
constexpr uint64_t kSameClockNs = 1'000'000;
// Maximum number of readings of the two clocks for their offset. This thread may lose
// its CPU within one, so the shortest counts; kShortReadingNs is short enough to stop.
constexpr int kReadings = 32;
constexpr uint64_t kShortReadingNs = 20'000;
constexpr uint64_t kPublishPeriodNs = 1'000'000'000;

}  // namespace

void ClockSource::Init(const HsaFunctions* hsa) {
  hsa_ = hsa;
  frequency_ = 0;
  offset_ns_ = 0;
  scale_shift_ = 0;
  for (uint64_t& t : published_ns_) t = 0;
  hsa->system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency_);
  if (frequency_ == 0) frequency_ = 1'000'000'000;
  if (frequency_ != 1'000'000'000) scale_shift_ = 1;
  offset_ns_ = SystemOffset();
}

// CLOCK_BOOTTIME minus the system domain, in nanoseconds; 0 if they may be the same.
int64_t ClockSource::SystemOffset() const {
  uint64_t shortest = UINT64_MAX, begin = 0, system = 0;
  for (int i = 0; i < kReadings && shortest > kShortReadingNs; ++i) {
    uint64_t read = 0;
    const uint64_t before = OwnBootNs();
    if (hsa_->system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &read) != HSA_STATUS_SUCCESS) {
      return 0;
    }
    const uint64_t took = OwnBootNs() - before;
    if (took >= shortest) continue;
    shortest = took;
    begin = before;
    system = read;
  }
  const uint64_t as_ns = scale_shift_ == 0 ? system : ScaleSystem(system);
  const bool same = as_ns - (begin - kSameClockNs) <= shortest + 2 * kSameClockNs;
  return same ? 0 : static_cast<int64_t>(begin + shortest / 2 - as_ns);
}

uint64_t ClockSource::ScaleSystem(uint64_t system) const {
  auto scaled = static_cast<unsigned __int128>(system) * 1'000'000'000u / frequency_;
  return static_cast<uint64_t>(scaled) + static_cast<uint64_t>(offset_ns_);
}

bool ClockSource::Refresh(const Agent& agent, uint64_t ticks, ClockMap* map) const {
  if (ticks <= kBaselineTicks) return false;
  uint64_t system0 = 0, system1 = 0;
  // The later point first: a tick that is newer than the runtime's samples makes it
  // take new ones, and both points should be on the same line.
  if (hsa_->convert_tick(agent.handle, ticks, &system1) != HSA_STATUS_SUCCESS ||
      hsa_->convert_tick(agent.handle, ticks - kBaselineTicks, &system0) !=
          HSA_STATUS_SUCCESS) {
    return false;
  }
  return map->Set(ticks - kBaselineTicks, SystemToBoot(system0), ticks,
                  SystemToBoot(system1));
}

void ClockSource::Publish(const Agent& agent, const ClockMap& map, RingHandle* ring) {
  if (agent.id == 0 || agent.id > Agents::kMax) return;
  uint64_t* last = &published_ns_[agent.id];
  uint64_t seen = LoadRelaxed(last);
  if (seen != 0 && map.base_ns() < seen + kPublishPeriodNs) return;
  // Only one of an agent's queues publishes.
  if (!__atomic_compare_exchange_n(last, &seen, map.base_ns(), false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  rocattach_clock record = {};
  record.kind = ROCATTACH_RECORD_CLOCK;
  record.agent_id = agent.id;
  record.gpu_ticks = map.base_ticks();
  record.boottime_ns = map.base_ns();
  record.ticks_per_second = map.ticks_per_second();
  ring->Push(&record);
}

}  // namespace rocattach::collector
