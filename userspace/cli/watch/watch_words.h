// Texts that the parts of rocattach-watch's console share.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_WORDS_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_WORDS_H_

#include <cstdint>
#include <string>

#include "userspace/base/json.h"
#include "userspace/record/sampling_level.h"

namespace rocattach {

// ", 5 LOST, 7 UNSEEN"; empty if nothing was lost. Unseen packets are those that the
// GPU consumed before the collector could read them.
std::string WatchLossText(uint64_t dropped, uint64_t unseen);

// The sampling that applies to dispatches from now on: for --json, and for users.
Json SamplingJson(const SamplingLevel& level, const std::string& why);
std::string SamplingText(const SamplingLevel& level, const std::string& why);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_WORDS_H_
