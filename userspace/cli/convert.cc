// rocattach convert: recordings in the formats of other tools.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/cli/conversion.h"
#include "userspace/cli/subcommands.h"
#include "userspace/record/output/output_path.h"

namespace rocattach {
namespace {

// Limits of a conversion that runs on behalf of a service.
constexpr int kNiceness = 10;
constexpr char kOomScore[] = "500";  // out of 1000; killed before service and targets
constexpr rlim_t kMostMemory = rlim_t{2} << 30;

// Keeps only CAP_DAC_OVERRIDE: files are still root's, in directories of any user.
absl::Status DropPrivileges() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) {
    return ErrnoStatus(errno, "capget() failed");
  }
  const __u32 kept = sets[0].permitted & (__u32{1} << CAP_DAC_OVERRIDE);
  sets[0] = {kept, kept, 0};
  sets[1] = {};
  if (syscall(SYS_capset, &header, sets) != 0) {
    return ErrnoStatus(errno, "capset() failed");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "prctl(PR_SET_NO_NEW_PRIVS) failed");
  }
  return absl::OkStatus();
}

// Makes this process a helper of `service`, which started it: it gets SIGTERM when that
// ends, gives up all privileges but to write where the service may, and has limits, so
// that it cannot take memory or processor time from other programs on the machine.
// FAILED_PRECONDITION if `service` has ended already.
absl::Status BecomeHelperOf(pid_t service) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != service) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", service, ", for which this runs, has ended"));
  }
  setpriority(PRIO_PROCESS, 0, kNiceness);
  if (auto file = OpenFile("/proc/self/oom_score_adj", O_WRONLY); file.ok()) {
    (void)WriteAll(file->get(), kOomScore);
  }
  const rlimit memory = {kMostMemory, kMostMemory};
  setrlimit(RLIMIT_DATA, &memory);
  return DropPrivileges();
}

struct ConvertOptions {
  ConversionRequest request;
  std::string agent_index = "relative";
  pid_t service = 0;  // on whose behalf this runs; 0: a user's
};

AgentIndex AgentIndexOf(const std::string& name) {
  if (name == "absolute") return AgentIndex::kAbsolute;
  return name == "relative" ? AgentIndex::kRelative : AgentIndex::kTypeRelative;
}

// True if all formats support what is requested; reports one that does not.
bool CheckFormats(const ConversionRequest& request) {
  if (!request.output.follow) return true;
  for (const std::string& name : request.formats) {
    if (FindExportFormat(name)->follows) continue;
    fprintf(stderr,
            "rocattach: %s cannot be written while data arrives: leave out --follow, "
            "or convert when the recording has ended\n",
            name.c_str());
    return false;
  }
  return true;
}

int RunConvert(const ConvertOptions& options) {
  if (!CheckFormats(options.request)) return kExitUsage;
  if (options.service != 0) {
    if (absl::Status status = BecomeHelperOf(options.service); !status.ok()) {
      fprintf(stderr, "rocattach: %s\n", std::string(status.message()).c_str());
      return kExitUnreadable;
    }
  }
  return Convert(options.request);
}

}  // namespace

void RegisterConvert(CLI::App* app, std::function<int()>* run) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* convert =
      app->add_subcommand("convert", "Write recordings in the formats of other tools");
  convert->add_option("FILE", options->request.paths, "Recordings; - is standard input")
      ->required()
      ->type_name("");
  convert
      ->add_option(
          "-f,--output-format", options->request.formats,
          "Formats, separated by commas: " + absl::StrJoin(ExportFormatNames(), ", "))
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FORMAT")
      ->check(CLI::IsMember(ExportFormatNames()).description(""));
  convert
      ->add_option("-d,--output-directory", options->request.directory,
                   "Directory of the outputs; created if missing")
      ->type_name("DIR");
  convert
      ->add_option("-o,--output-file", options->request.file,
                   "Beginning of their names, with rocprofv3's keys")
      ->capture_default_str()
      ->type_name("NAME");
  convert
      ->add_option("--agent-index", options->agent_index,
                   "How agents are numbered in CSV")
      ->capture_default_str()
      ->type_name("KIND")
      ->check(CLI::IsMember({"absolute", "relative", "type-relative"}));
  convert
      ->add_option("--rocpd-schema", options->request.output.rocpd_schema,
                   "Version of rocpd's tables")
      ->capture_default_str()
      ->type_name("VERSION")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kRocpdSchemas),
                                                     std::end(kRocpdSchemas))));
  convert->add_flag("--follow", options->request.output.follow,
                    "Write while the recording is being made, until it ends (last FILE "
                    "only)");
  convert
      ->add_flag(
          "--when-ended", options->request.when_ended,
          "The same, but complete the outputs of each process when it has ended; "
          "every format")
      ->excludes(convert->get_option("--follow"));
  convert->add_flag("-q,--quiet", options->request.quiet,
                    "Report problems only: no progress, no names of outputs");
  convert->add_option("--for-service", options->service, "")->group("");
  convert->add_flag("--force", options->request.output.force,
                    "Replace outputs that exist");
  convert->footer(
      "Examples:\n"
      "  rocattach convert run.rwa -f csv\n"
      "  rocattach convert node*/run.rwa -f csv -d out -o '%hostname%-%pid%'\n"
      "\n"
      "The files that were written are printed, one a line.\n"
      "Exit status: 0 everything was converted; 1 something is missing, and the "
      "messages\n"
      "say what; 2 usage error; 3 a FILE cannot be read or is not a recording, or an\n"
      "output cannot be written. An output that is not complete has a name that ends\n"
      "with .partial.");
  convert->callback([options, run] {
    options->request.output.agent_index = AgentIndexOf(options->agent_index);
    SplitOffDirectory(&options->request.directory, &options->request.file);
    *run = [options] { return RunConvert(*options); };
  });
}

}  // namespace rocattach
