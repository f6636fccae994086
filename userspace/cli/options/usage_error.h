// Command-line errors, worded the same for all programs.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace rocattach {

// For CLI::App::failure_message: the program's name, the error, and where to find help.
// For a command that does not exist, names it and similar ones that do.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

// Makes the last value win if an option with a single value is given several times, so
// that scripts can put their own values first. Call after all options have been added.
void LastValueWins(CLI::App* app);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_
