// The commands of `rocattach`: each in a file of its own, registered here.
#ifndef ROCATTACH_USERSPACE_CLI_SUBCOMMANDS_H_
#define ROCATTACH_USERSPACE_CLI_SUBCOMMANDS_H_

#include <functional>

namespace CLI {
class App;
}

namespace rocattach {

// Exit statuses of the commands.
inline constexpr int kExitOk = 0;
inline constexpr int kExitLosses = 1;  // data is damaged, or was lost on the way
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreadable = 3;   // input cannot be read, or output written
inline constexpr int kExitRegressions = 4;  // `compare`: a kernel is slower

// Each adds a command to the application. If the user chooses it, *run is set to the
// function that does the work and returns the exit status.
void RegisterAttach(CLI::App* app, std::function<int()>* run);
void RegisterCompare(CLI::App* app, std::function<int()>* run);
void RegisterConvert(CLI::App* app, std::function<int()>* run);
void RegisterDump(CLI::App* app, std::function<int()>* run);
void RegisterCounters(CLI::App* app, std::function<int()>* run);
void RegisterMerge(CLI::App* app, std::function<int()>* run);
void RegisterProfile(CLI::App* app, std::function<int()>* run);
void RegisterRecover(CLI::App* app, std::function<int()>* run);
void RegisterReport(CLI::App* app, std::function<int()>* run);
void RegisterSession(CLI::App* app, std::function<int()>* run);
void RegisterTop(CLI::App* app, std::function<int()>* run);
void RegisterDoctor(CLI::App* app, std::function<int()>* run);
void RegisterWhy(CLI::App* app, std::function<int()>* run);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SUBCOMMANDS_H_
