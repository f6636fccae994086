// Errors of the command line, in the same words for all programs.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace rocattach {

// For CLI::App::failure_message: the program's name, what is wrong, and where the help
// is. A command that does not exist is named, with similar ones that do.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

// Lets the last one win where an option that takes one value is given several times, so
// that scripts can put their own values first. Call when all options are there.
void LastValueWins(CLI::App* app);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_USAGE_ERROR_H_
