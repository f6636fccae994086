#include "injector/place_cache.h"

#include "injector/target_checks.h"
#include "injector/thread_status.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// A user who owns nothing, is in no group and has no capabilities.
ThreadStatus Nobody() {
  ThreadStatus nobody;
  nobody.file_uid = UINT32_MAX;
  nobody.file_gid = UINT32_MAX;
  return nobody;
}

}  // namespace

bool PlaceCache::EverybodyMayLoad(pid_t pid, uint64_t place, const std::string& path) {
  const uint64_t now_ns = BootNs();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = answers_.find(place);
    if (found != answers_.end() && found->second.path == path &&
        now_ns < found->second.time_ns + kLifeNs) {
      return found->second.everybody;
    }
  }
  const bool everybody = !CheckCollector(pid, Nobody(), path).has_value();
  std::lock_guard<std::mutex> lock(mutex_);
  if (answers_.size() >= kMaxPlaces) answers_.clear();
  answers_[place] = {now_ns, path, everybody};
  return everybody;
}

}  // namespace rocattach
