// rocattach top: a live view of what processes do on GPUs.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/json.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/subcommands.h"
#include "userspace/cli/terminal/top_view.h"
#include "userspace/telemetry/http_get.h"

namespace rocattach {
namespace {

constexpr char kPage[] = "/processes";

struct TopArguments {
  std::string address = "127.0.0.1:9410";
  std::string sort = "time";
  std::string filter;
  uint32_t interval_msec = 1000;
  bool once = false;
  bool json = false;
};

const std::map<std::string, TopSort> kSorts = {
    {"time", TopSort::kTime},     {"dispatches", TopSort::kDispatches},
    {"copies", TopSort::kCopies}, {"bytes", TopSort::kBytes},
    {"pid", TopSort::kPid},       {"name", TopSort::kName}};

// Keys that choose the order.
const std::map<char, TopSort> kSortKeys = {
    {'t', TopSort::kTime},  {'d', TopSort::kDispatches}, {'c', TopSort::kCopies},
    {'b', TopSort::kBytes}, {'i', TopSort::kPid},        {'n', TopSort::kName}};

int PrintError(const absl::Status& status) {
  std::string hint;
  if (!absl::IsInvalidArgument(status)) {
    hint =
        "; the service must have been started with --metrics-listen, and --connect "
        "names its address";
  }
  fprintf(stderr, "rocattach top: %s%s\n", std::string(status.message()).c_str(),
          hint.c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitUnreadable;
}

// Reads keys singly and without echo; the destructor restores the previous screen.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z would leave the terminal in this mode
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    (void)WriteAll(STDOUT_FILENO, "\033[?1049h\033[?25l");
  }
  ~Screen() {
    (void)WriteAll(STDOUT_FILENO, "\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static void Show(const std::vector<std::string>& lines) {
    std::string text = "\033[H";
    for (const std::string& line : lines) {
      absl::StrAppend(&text, text.size() == 3 ? "" : "\r\n", line, "\033[K");
    }
    text += "\033[J";
    (void)WriteAll(STDOUT_FILENO, text);
  }

 private:
  termios before_ = {};
};

class LiveTop {
 public:
  LiveTop(const ListenAddress& server, const TopArguments& arguments)
      : server_(server), interval_ns_(uint64_t{arguments.interval_msec} * 1'000'000) {
    options_.sort = kSorts.at(arguments.sort);
    options_.filter = arguments.filter;
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) {
      sigaddset(&signals, number);
    }
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  // Runs until the user ends it, or the first sample fails. Later errors are shown, as
  // the service may come back.
  absl::Status Run() {
    ASSIGN_OR_RETURN(before_, HttpGet(server_, kPage));
    const Screen screen;
    uint64_t next_ns = ClockNs(CLOCK_MONOTONIC) + interval_ns_;
    bool goes_on = true;
    while (goes_on) {
      const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
      if (now_ns >= next_ns) {
        if (!options_.paused) UpdateSample();
        next_ns = now_ns + interval_ns_;
      }
      Draw();
      goes_on = WaitFor(next_ns);
    }
    return absl::OkStatus();
  }

 private:
  void UpdateSample() {
    auto now = HttpGet(server_, kPage);
    auto sample = now.ok() ? CompareSamples(before_, *now)
                           : absl::StatusOr<TopSample>(now.status());
    trouble_ = sample.ok() ? "" : std::string(sample.status().message());
    if (!sample.ok()) return;
    before_ = *std::move(now);
    sample_ = *std::move(sample);
  }

  void Draw() {
    winsize size = {};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      options_.width = size.ws_col;
      options_.height = std::max<size_t>(size.ws_row, 4) - 1;
    }
    TopSample sample = sample_;
    Arrange(options_, &sample);
    std::vector<std::string> lines = TopLines(sample, options_);
    lines.resize(options_.height);
    lines.push_back(typing_ ? "show those with: " + options_.filter
                    : !trouble_.empty()
                        ? trouble_
                        : "q quit  p pause  k kernels  / filter  sort: t time "
                          "d disp c copies b bytes i pid n name");
    if (lines.back().size() > options_.width) lines.back().resize(options_.width);
    Screen::Show(lines);
  }

  // Waits for keys and signals. False if the user has ended the program.
  bool WaitFor(uint64_t until_ns) {
    const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    const uint64_t rest_ns = until_ns - std::min(until_ns, now_ns);
    pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(rest_ns / 1'000'000) + 1) <= 0) return true;
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGWINCH) return false;
    }
    char key = 0;
    if (fds[0].revents == 0) return true;
    if (read(STDIN_FILENO, &key, 1) != 1) return false;
    return typing_ ? Type(key) : Press(key);
  }

  bool Press(char key) {
    if (const auto sort = kSortKeys.find(key); sort != kSortKeys.end()) {
      options_.sort = sort->second;
    } else if (key == 'p' || key == ' ') {
      options_.paused = !options_.paused;
    } else if (key == 'k') {
      options_.kernels = !options_.kernels;
    } else if (key == '/') {
      typing_ = true;
      options_.filter.clear();
    }
    return key != 'q';
  }

  bool Type(char key) {
    if (key == '\r' || key == '\n') {
      typing_ = false;
    } else if (key == '\033') {
      typing_ = false;
      options_.filter.clear();
    } else if (key == '\b' || key == '\177') {
      if (!options_.filter.empty()) options_.filter.pop_back();
    } else if (key >= ' ' && options_.filter.size() < 64) {
      options_.filter.push_back(key);
    }
    return true;
  }

  const ListenAddress server_;
  const uint64_t interval_ns_;
  UniqueFd signals_;
  TopOptions options_;
  std::string before_, trouble_;
  TopSample sample_;
  bool typing_ = false;
};

int RunOnce(const ListenAddress& server, const TopArguments& arguments) {
  auto before = HttpGet(server, kPage);
  if (!before.ok()) return PrintError(before.status());
  absl::SleepFor(absl::Milliseconds(arguments.interval_msec));
  auto now = HttpGet(server, kPage);
  if (!now.ok()) return PrintError(now.status());
  auto sample = CompareSamples(*before, *now);
  if (!sample.ok())
    return PrintError(absl::UnavailableError(sample.status().message()));
  TopOptions options;
  options.sort = kSorts.at(arguments.sort);
  options.filter = arguments.filter;
  options.height = SIZE_MAX;
  Arrange(options, &*sample);
  std::string text;
  if (arguments.json) {
    text = DumpJson(TopJson(*sample)) + "\n";
  } else {
    for (const std::string& line : TopLines(*sample, options)) {
      absl::StrAppend(&text, line, "\n");
    }
  }
  return WriteAll(STDOUT_FILENO, text).ok() ? kExitOk : kExitUnreadable;
}

int RunTop(const TopArguments& arguments) {
  const auto server = ParseListenAddress(arguments.address);
  if (!server.ok()) return PrintError(server.status());
  if (arguments.once || arguments.json) return RunOnce(*server, arguments);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return PrintError(absl::InvalidArgumentError(
        "standard input and output are no terminal; use --once"));
  }
  const absl::Status status = LiveTop(*server, arguments).Run();
  return status.ok() ? kExitOk : PrintError(status);
}

}  // namespace

void RegisterTop(CLI::App* app, std::function<int()>* run) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app->add_subcommand(
      "top", "Show what processes do on GPUs, live (needs a running service)");
  command
      ->add_option("--connect", arguments->address,
                   "Address that rocattach-watch --metrics-listen serves at")
      ->type_name("ADDR:PORT")
      ->capture_default_str();
  command
      ->add_option("--sort", arguments->sort,
                   "Order: time, dispatches, copies, bytes, pid or name")
      ->check(CLI::IsMember({"time", "dispatches", "copies", "bytes", "pid", "name"}))
      ->capture_default_str();
  command
      ->add_option("--filter", arguments->filter,
                   "Only processes with this in their name or workload, or this pid")
      ->type_name("TEXT");
  command
      ->add_option("--interval-msec", arguments->interval_msec,
                   "Time between two samples")
      ->check(CLI::Range(250, 3'600'000))
      ->capture_default_str();
  command->add_flag("--once", arguments->once,
                    "Print one view over one interval, and end");
  command->add_flag("--json", arguments->json, "The same as one JSON object");
  command->footer(
      "Keys: q quit, p pause, k kernels on and off, / filter, t d c b i n the order.\n"
      "Exit status: 0; 2 usage error; 3 the service cannot be reached.");
  command->callback(
      [arguments, run] { *run = [arguments] { return RunTop(*arguments); }; });
}

}  // namespace rocattach
