// Commands that see no file of the collector, as in a container.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_CONTAINERS_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_CONTAINERS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// The command in a mount namespace of its own (`unshare`: further options of
// unshare(1)), after the shell has run `script` there. In the script, "$hide" is the
// directory of the collector that was built.
inline std::vector<std::string> Unshared(std::vector<std::string> unshare,
                                         const std::string& script,
                                         const std::vector<std::string>& command) {
  std::vector<std::string> words = {"unshare", "--mount"};
  words.insert(words.end(), unshare.begin(), unshare.end());
  const std::string hide = std::filesystem::path(CollectorPath()).parent_path();
  words.insert(words.end(),
               {"sh", "-c", "hide=$1 && shift && mount --make-rprivate / && " + script,
                "sh", hide});
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// The usual root directory, without the collector's file and the service's copy.
inline constexpr char kHideCollector[] =
    "mount -t tmpfs none \"$hide\" && for d in /run /dev/shm /var/tmp; do "
    "mount -t tmpfs none $d || exit 98; done && exec \"$@\"";

inline std::vector<std::string> WithoutCollector(
    const std::vector<std::string>& command) {
  return Unshared({}, kHideCollector, command);
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_CONTAINERS_H_
