// The `rocattach` program as users run it: exit status, standard output and error.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/await.h"
#include "tests/temporary_directory.h"
#include "userspace/base/file.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int exit_status = -1;
  std::string out;
  std::string err;
};

class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* program = getenv("ROCATTACH_CLI");
    ASSERT_NE(program, nullptr) << "ctest sets ROCATTACH_CLI to the program";
    program_ = program;
  }

  std::string Path(const char* name) const { return directory_ / name; }

  // Starts the program; `in` is its standard input, -1 for none.
  pid_t Spawn(std::vector<std::string> arguments, int in = -1) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (in >= 0) {
      posix_spawn_file_actions_adddup2(&actions, in, 0);
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    }
    int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 1, Path("out").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, Path("err").c_str(), flags, 0600);
    std::vector<char*> argv = {program_.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    EXPECT_EQ(
        posix_spawn(&pid, program_.c_str(), &actions, nullptr, argv.data(), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  Result Wait(pid_t pid) {
    Result result;
    const int status = testing_support::AwaitExit(pid, "the program");
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    result.exit_status = WEXITSTATUS(status);
    result.out = *ReadFile(Path("out"), 1 << 24);
    result.err = *ReadFile(Path("err"), 1 << 24);
    return result;
  }

  void AwaitOutput() {
    testing_support::Await(
        [&] { return !ReadFile(Path("out"), 1 << 24).value_or("").empty(); },
        "the first output");
  }

  // Waits until the program has read all of the file, and waits for more.
  void WaitUntilRead(pid_t pid, const std::string& path) {
    const std::string proc = absl::StrCat("/proc/", pid);
    const auto position =
        absl::StrCat("pos:\t", std::filesystem::file_size(path), "\n");
    auto has_read = [&] {
      std::error_code error;
      for (const auto& fd : std::filesystem::directory_iterator(proc + "/fd", error)) {
        if (std::filesystem::read_symlink(fd, error) != path) continue;
        const std::string info =
            absl::StrCat(proc, "/fdinfo/", fd.path().filename().string());
        if (absl::StartsWith(ReadFile(info, 4096).value_or(""), position)) return true;
      }
      return false;
    };
    for (int i = 0; i < 30'000 && !has_read(); ++i) usleep(1000);
    EXPECT_TRUE(has_read());
  }

  Result Run(std::vector<std::string> arguments, int in = -1) {
    return Wait(Spawn(std::move(arguments), in));
  }

  // A recording of one process with `count` dispatches.
  static std::string Recording(size_t count) {
    std::string bytes;
    auto writer = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes), {});
    v1::Process process;
    process.set_comm("app");
    process.set_pid(42);
    StreamId id = writer->OpenProcess(process);
    v1::Kernel kernel;
    kernel.set_id(1);
    kernel.set_name("_Z4vaddPf");
    EXPECT_TRUE(writer->AddKernel(id, kernel).ok());
    std::vector<rocattach_dispatch> records(count);
    for (size_t i = 0; i < count; ++i) {
      records[i].kernel_id = 1;
      records[i].correlation_id = i + 1;
      records[i].start_ns = 1000 * (i + 1);
      records[i].end_ns = records[i].start_ns + 500;
    }
    EXPECT_TRUE(writer->Append<DispatchKind>(id, records).ok());
    v1::LossAccount account;
    account.set_final(true);
    account.set_dispatches_seen(count);
    EXPECT_TRUE(writer->SetAccount(id, account).ok());
    EXPECT_TRUE(writer->EndProcess(id, {}).ok());
    EXPECT_TRUE(writer->Close().ok());
    return bytes;
  }

  void WriteFile(const char* name, absl::string_view bytes) {
    auto fd = OpenFile(Path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_TRUE(fd.ok());
    ASSERT_TRUE(WriteAll(fd->get(), bytes).ok());
  }

  static size_t Lines(const std::string& text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  std::string program_;
  const testing_support::TemporaryDirectory directory_;
};

TEST_F(CliTest, ReportOfAWholeRecording) {
  WriteFile("a.rwa", Recording(100));
  Result result = Run({"report", Path("a.rwa")});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("app (pid 42)"));
  EXPECT_THAT(result.out, HasSubstr("vadd(float*)"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b"))) << "not a terminal";
  EXPECT_EQ(result.err, "");
}

TEST_F(CliTest, ReportOfSeveralFilesAndStandardInput) {
  WriteFile("a.rwa", Recording(100));
  WriteFile("b.rwa", Recording(50));
  auto input = OpenFile(Path("b.rwa"), O_RDONLY);
  ASSERT_TRUE(input.ok());
  Result result = Run({"report", "--json", Path("a.rwa"), "-"}, input->get());
  EXPECT_EQ(result.exit_status, 0) << result.err;
  google::protobuf::Struct parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &parsed).ok());
  EXPECT_EQ(parsed.fields().at("recordings").list_value().values_size(), 2);
}

TEST_F(CliTest, DamageIsExitStatusOne) {
  std::string bytes = Recording(100);
  bytes[bytes.size() - 200] = static_cast<char>(bytes[bytes.size() - 200] ^ 1);
  WriteFile("a.rwa", bytes);
  Result report = Run({"report", Path("a.rwa")});
  EXPECT_EQ(report.exit_status, 1);
  EXPECT_THAT(report.out, HasSubstr("The stream is damaged"));
  Result dump = Run({"dump", Path("a.rwa")});
  EXPECT_EQ(dump.exit_status, 1);
  EXPECT_THAT(dump.out, HasSubstr("damage "));
  EXPECT_THAT(dump.err, HasSubstr("damaged"));
}

TEST_F(CliTest, UsageIsExitStatusTwo) {
  for (std::vector<std::string> arguments : {std::vector<std::string>{},
                                             {"report"},
                                             {"dump"},
                                             {"nonsense"},
                                             {"report", "--nonsense", "x"},
                                             {"dump", "--type", "nonsense", "x"}}) {
    Result result = Run(arguments);
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_NE(result.err, "");
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(CliTest, NegativeNumbersAreRefused) {
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"report", "--top=-5", "x"},
        {"report", "--limit=-1", "x"},
        {"compare", "--top=-1", "x", "y"},
        {"session", "start", "--pid=-1"},
        {"session", "start", "--pid=0"},
        {"session", "stop", "-1"},
        {"session", "stop", "0"}}) {
    Result result = Run(arguments);
    EXPECT_EQ(result.exit_status, 2) << arguments[0] << " " << arguments[1];
    EXPECT_THAT(result.err, HasSubstr("--help"));
  }
}

TEST_F(CliTest, UnreadableIsExitStatusThree) {
  Result missing = Run({"report", Path("a.rwa")});
  EXPECT_EQ(missing.exit_status, 3);
  EXPECT_THAT(missing.err, HasSubstr(Path("a.rwa")));
  WriteFile("a.rwa", "this is text, and no recording");
  Result text = Run({"report", Path("a.rwa")});
  EXPECT_EQ(text.exit_status, 3);
  EXPECT_THAT(text.err, HasSubstr("not a rocattach stream"));
  WriteFile("a.rwa", Recording(10).substr(0, 1000));
  Result cut = Run({"report", Path("a.rwa")});
  EXPECT_EQ(cut.exit_status, 3);
  EXPECT_THAT(cut.err, HasSubstr("cut off inside its first frame"));
  // The other files are still read.
  WriteFile("b.rwa", Recording(10));
  Result both = Run({"report", Path("a.rwa"), Path("b.rwa")});
  EXPECT_EQ(both.exit_status, 3);
  EXPECT_THAT(both.out, HasSubstr("app (pid 42)"));
}

TEST_F(CliTest, UsageErrorsNameTheMistake) {
  EXPECT_EQ(Run({"repot"}).err,
            "rocattach: there is no command 'repot'; did you mean report?\n"
            "Run 'rocattach --help' for more information.\n");
  EXPECT_THAT(Run({}).err, HasSubstr("rocattach: a command is missing"));
  Result option = Run({"report", "--nonsense", "x"});
  EXPECT_THAT(option.err, HasSubstr("--nonsense"));
  EXPECT_THAT(option.err, HasSubstr("rocattach report --help"));
  // The message does not contain the path by which the program was called.
  EXPECT_THAT(option.err, Not(HasSubstr(program_)));
  EXPECT_THAT(Run({"report", "--help"}).out, Not(HasSubstr(program_)));
}

TEST_F(CliTest, UnknownOptionsAreNamedInOrder) {
  const Result result =
      Run({"report", "--nonsense", "x", "--jsn", "--folow=yes", "-Z"});
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_EQ(result.err,
            "rocattach: there is no option --nonsense\n"
            "rocattach: there is no option --jsn; did you mean --json?\n"
            "rocattach: there is no option --folow; did you mean --follow?\n"
            "rocattach: there is no option -Z\n"
            "Run 'rocattach report --help' for more information.\n");
  EXPECT_THAT(Run({"--jsn", "report"}).err, HasSubstr("there is no option --jsn"));
  EXPECT_THAT(Run({"session", "start", "--wiat"}).err,
              HasSubstr("did you mean --wait"));
}

TEST_F(CliTest, OptionsOfOtherProfilersAreAnswered) {
  const Result attach = Run({"attach", "-p", "1", "--att", "--pc-sampling-unit=time",
                             "--truncate-kernels", "--nonsense"});
  EXPECT_EQ(attach.exit_status, 2);
  EXPECT_EQ(
      attach.err,
      "rocattach: rocprofv3's --att is not available: no thread traces are recorded\n"
      "rocattach: rocprofv3's --pc-sampling-unit is not available: programs are not "
      "sampled\n"
      "rocattach: rocprofv3's --truncate-kernels is not available: recordings have "
      "both "
      "names of each kernel; outputs show the demangled one\n"
      "rocattach: there is no option --nonsense\n"
      "Run 'rocattach attach --help' for more information.\n");
  // Options that were added in 2026.
  for (const char* option :
       {"--spm", "--kfd-trace", "--hip-graph-trace", "--hip-event-trace",
        "--rocshmem-trace", "--hipfile-trace", "--ompt-trace", "--replay-mode=kernel",
        "--kernel-replay-beta-enabled"}) {
    EXPECT_THAT(Run({"attach", "-p", "1", option}).err, HasSubstr("is not available: "))
        << option;
  }
  for (const char* option : {"--experimental", "--pc-sampling", "--overwrite"}) {
    EXPECT_THAT(Run({"profile", "-n", "x", option, "--", "true"}).err,
                HasSubstr("is not available: "))
        << option;
  }
  EXPECT_THAT(Run({"profile", "--output-directory", "/x", "--nonsense"}).err,
              testing::Not(HasSubstr("output-directory")));
  EXPECT_THAT(Run({"profile", "-n", "x", "--roof-only", "--", "true"}).err,
              HasSubstr("rocprof-compute's --roof-only is not available"));
  // In commands that measure nothing, such a name is just an unknown option.
  EXPECT_THAT(Run({"dump", "--kernel", "x"}).err, HasSubstr("no option --kernel"));
}

TEST_F(CliTest, MessagesContainNoStatusNames) {
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"session", "start", "--pmc", "SQ_WAEVS"},
        {"session", "start", "--arch", "gfx90a", "--set", "launch_stat"},
        {"attach", "-p", "1", "--pmc", "SQ_WAEVS"},
        {"profile", "-n", "x", "--arch", "gfx90a", "-b", "TCQ", "--", "true"}}) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_THAT(result.err, HasSubstr("did you mean"));
    EXPECT_THAT(result.err, Not(HasSubstr("NOT_FOUND")));
  }
}

TEST_F(CliTest, CountersCanBeListedByName) {
  const Result sets = Run({"counters", "--arch", "gfx90a", "--names", "sets"});
  EXPECT_EQ(sets.exit_status, 0) << sets.err;
  EXPECT_THAT(sets.out, HasSubstr("launch_stats\n"));
  EXPECT_THAT(sets.out, Not(HasSubstr(" ")));
  EXPECT_THAT(Run({"counters", "--names", "counters"}).out, HasSubstr("\nSQ_WAVES\n"));
  EXPECT_THAT(Run({"counters", "--names", "blocks"}).out, HasSubstr("\n5.1.1\n"));
  EXPECT_THAT(Run({"counters", "--names", "architectures"}).out, HasSubstr("gfx90a\n"));
  EXPECT_EQ(Run({"counters", "--names", "nonsense"}).exit_status, 2);
}

// rocattach-watch probes copies that it finds there, so the doctor must check them.
TEST_F(CliTest, TheDoctorLooksInTheLibraryPath) {
  const std::string place = directory_ / "lib";
  std::filesystem::create_directory(place);
  for (const char* name : {"librocprofiler-sdk.so.1", "librocprofiler-register.so.0"}) {
    std::filesystem::copy_file(program_, place + "/" + name);
  }
  ASSERT_EQ(setenv("LD_LIBRARY_PATH", place.c_str(), 1), 0);
  const Result result = Run({"doctor", "--json"});
  ASSERT_EQ(unsetenv("LD_LIBRARY_PATH"), 0);
  EXPECT_THAT(result.out, HasSubstr(place + "/librocprofiler-sdk.so.1"));
  EXPECT_THAT(result.out, HasSubstr(place + "/librocprofiler-register.so.0"));
  EXPECT_THAT(Run({"doctor", "--json"}).out, Not(HasSubstr(place)));
}

TEST_F(CliTest, TheVariableNamesTheSocket) {
  ASSERT_EQ(setenv("ROCATTACH_SOCKET", Path("none").c_str(), 1), 0);
  const Result result = Run({"session", "status"});
  const Result other = Run({"session", "status", "--socket", Path("other")});
  ASSERT_EQ(unsetenv("ROCATTACH_SOCKET"), 0);
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_THAT(result.err, HasSubstr(Path("none")));
  EXPECT_THAT(other.err, HasSubstr(Path("other")));
}

TEST_F(CliTest, TheLastValueOfAnOptionCounts) {
  WriteFile("a.rwa", Recording(10));
  Result result = Run({"report", "--top", "3", "--top", "0", Path("a.rwa")});
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

TEST_F(CliTest, ReportFollowsUntilTheEnd) {
  std::string bytes = Recording(30000);
  size_t half = bytes.size() / 2;
  WriteFile("a.rwa", absl::string_view(bytes).substr(0, half));
  pid_t pid = Spawn({"report", "--follow", Path("a.rwa")});
  WaitUntilRead(pid, Path("a.rwa"));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "it waits for more";
  auto fd = OpenFile(Path("a.rwa"), O_WRONLY | O_APPEND);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(WriteAll(fd->get(), absl::string_view(bytes).substr(half)).ok());
  Result result = Wait(pid);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("30,000 dispatches"));
  EXPECT_THAT(result.out, Not(HasSubstr("has no end")));
}

TEST_F(CliTest, InterruptedReportShowsDataReadSoFar) {
  std::string bytes = Recording(30000);
  WriteFile("a.rwa", absl::string_view(bytes).substr(0, bytes.size() - 100));
  pid_t pid = Spawn({"report", "--follow", Path("a.rwa")});
  WaitUntilRead(pid, Path("a.rwa"));
  EXPECT_EQ(kill(pid, SIGINT), 0);
  Result result = Wait(pid);
  EXPECT_THAT(result.out, HasSubstr("app (pid 42)"));
  EXPECT_THAT(result.out, HasSubstr("has no end"));
  EXPECT_EQ(result.err, "");
}

TEST_F(CliTest, HelpAndVersion) {
  Result help = Run({"--help"});
  EXPECT_EQ(help.exit_status, 0);
  EXPECT_THAT(help.out, HasSubstr("report"));
  EXPECT_THAT(help.out, HasSubstr("dump"));
  for (const char* command : {"report", "dump"}) {
    Result result = Run({command, "--help"});
    EXPECT_EQ(result.exit_status, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:"));
    EXPECT_THAT(result.out, HasSubstr("Exit status:"));
  }
  Result version = Run({"--version"});
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_THAT(version.out, HasSubstr("rocattach "));
}

TEST_F(CliTest, DumpPrintsEveryRecord) {
  WriteFile("a.rwa", Recording(5000));
  Result result = Run({"dump", "--json", "--type", "dispatch", Path("a.rwa")});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(Lines(result.out), 5000u);
  EXPECT_THAT(result.out, HasSubstr("\"correlation_id\":5000,"));
}

TEST_F(CliTest, RecoverWritesTheIntactData) {
  std::string bytes = Recording(5000);
  WriteFile("a.rwa", bytes);
  Result whole = Run({"recover", Path("a.rwa"), "-o", Path("b.rwa")});
  EXPECT_EQ(whole.exit_status, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("nothing was lost"));
  EXPECT_EQ(*ReadFile(Path("b.rwa"), 1 << 24), bytes);

  Result again = Run({"recover", Path("a.rwa"), "-o", Path("b.rwa")});
  EXPECT_EQ(again.exit_status, 3);
  EXPECT_THAT(again.err, HasSubstr("b.rwa"));
  ASSERT_EQ(unlink(Path("b.rwa").c_str()), 0);

  WriteFile("a.rwa", absl::string_view(bytes).substr(0, bytes.size() - 100));
  Result torn = Run({"recover", Path("a.rwa"), "-o", Path("b.rwa")});
  EXPECT_EQ(torn.exit_status, 1) << torn.err;
  EXPECT_THAT(torn.out, HasSubstr("1 ends"));
  Result dump = Run({"dump", Path("b.rwa")});
  EXPECT_EQ(dump.exit_status, 0) << dump.err;
  EXPECT_EQ(dump.err, "");
  EXPECT_THAT(dump.out, Not(HasSubstr("damage")));
  Result report = Run({"report", Path("b.rwa")});
  EXPECT_EQ(report.exit_status, 1) << "what was lost stays lost";
  EXPECT_THAT(report.out, HasSubstr("Recovered from a damaged file"));
}

TEST_F(CliTest, DumpEndsWhenItsReaderGoesAway) {
  WriteFile("a.rwa", Recording(200'000));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
  posix_spawn_file_actions_addclose(&actions, reading.get());
  posix_spawn_file_actions_addopen(&actions, 2, Path("err").c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::string path = Path("a.rwa");
  std::string command = "dump";
  char* argv[] = {program_.data(), command.data(), path.data(), nullptr};
  pid_t pid = -1;
  ASSERT_EQ(posix_spawn(&pid, program_.c_str(), &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  writing.reset();
  char first;
  ASSERT_EQ(read(reading.get(), &first, 1), 1);
  reading.reset();
  const int status = testing_support::AwaitExit(pid, "the program");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(*ReadFile(Path("err"), 1 << 20), "");
}

TEST_F(CliTest, FollowReadsDataAppendedLater) {
  std::string bytes = Recording(30000);
  // The header, with the schemas in it, lies in the first half.
  size_t half = bytes.size() / 2;
  WriteFile("a.rwa", absl::string_view(bytes).substr(0, half));
  pid_t pid =
      Spawn({"dump", "--follow", "--type", "recording,recording_end", Path("a.rwa")});
  // Once the first line is out, the program is at the end of the file, or close to it.
  AwaitOutput();
  auto fd = OpenFile(Path("a.rwa"), O_WRONLY | O_APPEND);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(WriteAll(fd->get(), absl::string_view(bytes).substr(half)).ok());
  Result result = Wait(pid);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("recording_end "));
  EXPECT_THAT(result.out, HasSubstr("dispatches=30000"));
}

TEST_F(CliTest, InterruptedFollowStillReports) {
  std::string bytes = Recording(3);
  WriteFile("a.rwa", absl::string_view(bytes).substr(0, bytes.size() - 100));
  pid_t pid = Spawn({"dump", "--follow", Path("a.rwa")});
  AwaitOutput();
  EXPECT_EQ(kill(pid, SIGINT), 0);
  Result result = Wait(pid);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("recording recording=0"));
  EXPECT_THAT(result.out, Not(HasSubstr("damage")));
  EXPECT_EQ(result.err, "");
}

// More milliseconds than 32 bits hold.
TEST_F(CliTest, AttachAcceptsDurationsOfUpToAYear) {
  for (const char* duration : {"4294967296", "31536000000"}) {
    const Result result =
        Run({"attach", "-p", "4194303", "--attach-duration-msec", duration});
    EXPECT_EQ(result.exit_status, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("there is no process"));
  }
  for (const char* duration : {"31536000001", "-1", "99999999999999999999"}) {
    const Result result =
        Run({"attach", "-p", "4194303", "--attach-duration-msec", duration});
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("--attach-duration-msec"));
  }
}

}  // namespace
}  // namespace rocattach
