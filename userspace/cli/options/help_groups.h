// Help in two lengths: --help shows the everyday options, --help-all every option, both
// in the same groups.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_GROUPS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_GROUPS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rocattach {

// In the order in which help shows them.
inline constexpr char kWatchGroup[] = "What to watch";
inline constexpr char kRecordGroup[] = "What to record";
inline constexpr char kCounterGroup[] = "Counters";
inline constexpr char kSessionGroup[] = "Sessions";
inline constexpr char kOutputGroup[] = "Output";
inline constexpr char kLimitGroup[] = "Limits";

// Puts the options that are added from now on into the group.
void StartGroup(CLI::App* app, const char* group);

// Call after all options have been added: adds --help-all, and limits --help to the
// options in `everyday`.
void ShortenHelp(CLI::App* app, const std::vector<std::string>& everyday);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_HELP_GROUPS_H_
