#include "userspace/record/output/output_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

OutputKeys Keys() {
  OutputKeys keys;
  keys.process.id.pid = 42;
  keys.process.parent = 7;
  keys.process.arguments = {"/opt/app/train", "--size", "4/8"};
  keys.hostname = "node1";
  keys.launch_date = "2026-01-02";
  keys.launch_time = "03.04.05";
  keys.working_directory = "/data";
  keys.environment = [](absl::string_view name) -> std::optional<std::string> {
    if (name == "SLURM_JOB_ID") return "991";
    if (name == "TEAM") return "blue/../../etc";
    return std::nullopt;
  };
  return keys;
}

TEST(ExpandOutputKeys, IdsOfRecordedProcessesAreNotReadOnThisMachine) {
  OutputKeys keys = Keys();
  keys.process.id.pid = getpid();
  EXPECT_EQ(ExpandOutputKeys("%pgid%-%psid%", keys),
            absl::StrCat(getpgid(0), "-", getsid(0)));
  keys.recorded = true;
  EXPECT_EQ(ExpandOutputKeys("%pgid%-%psid%", keys), "0-0");
}

TEST(TakeDirectory, AbsolutePathsNameTheirDirectory) {
  const auto split = [](std::string file) {
    std::string directory = "given";
    SplitOffDirectory(&directory, &file);
    return directory + "|" + file;
  };
  EXPECT_EQ(split("/tmp/run"), "/tmp|run");
  EXPECT_EQ(split("/run"), "/|run");
  EXPECT_EQ(split("/logs/%hostname%/%pid%"), "/logs|%hostname%/%pid%");
  EXPECT_EQ(split("/logs/{hostname}-a/b"), "/logs|{hostname}-a/b");
  EXPECT_EQ(split("/logs/"), "/logs|");
  EXPECT_EQ(split("run"), "given|run");
  EXPECT_EQ(split("sub/run"), "given|sub/run");
  EXPECT_EQ(split("-"), "given|-");
  EXPECT_EQ(split(""), "given|");
}

TEST(ExpandOutputKeys, KnowsTheKeysOfRocprofv3) {
  EXPECT_EQ(ExpandOutputKeys("%hostname%/%pid%", Keys()), "node1/42");
  EXPECT_EQ(ExpandOutputKeys("{hostname}-{pid}-{ppid}", Keys()), "node1-42-7");
  EXPECT_EQ(ExpandOutputKeys("%h.%p.%j", Keys()), "node1.42.991");
  EXPECT_EQ(ExpandOutputKeys("%tag%_%arg1%_%arg9%x", Keys()), "train_--size_x");
  EXPECT_EQ(ExpandOutputKeys("%launch_date%-%launch_time%", Keys()),
            "2026-01-02-03.04.05");
  EXPECT_EQ(ExpandOutputKeys("%cwd%/out", Keys()), "/data/out");
  EXPECT_EQ(ExpandOutputKeys("%job%-%rank%-%nid%", Keys()), "991-0-42");
}

TEST(ExpandOutputKeys, ReadsTheEnvironmentInAllThreeForms) {
  EXPECT_EQ(ExpandOutputKeys("%env{SLURM_JOB_ID}%", Keys()), "991");
  EXPECT_EQ(ExpandOutputKeys("$ENV{SLURM_JOB_ID}", Keys()), "991");
  EXPECT_EQ(ExpandOutputKeys("%q{SLURM_JOB_ID}", Keys()), "991");
  EXPECT_EQ(ExpandOutputKeys("a%env{NOT_SET}%b", Keys()), "ab");
}

TEST(ExpandOutputKeys, LeavesTextThatIsNotAKey) {
  for (const char* text :
       {"plain", "100%", "%", "%%", "{", "{x}", "$HOME", "%nokey%"}) {
    EXPECT_EQ(ExpandOutputKeys(text, Keys()), text);
  }
}

// A process chooses its arguments and environment: they must not choose the path.
TEST(ExpandOutputKeys, ValuesStayWithinTheirPathComponent) {
  EXPECT_EQ(ExpandOutputKeys("%env{TEAM}%", Keys()), "blue_.._.._etc");
  EXPECT_EQ(ExpandOutputKeys("%arg2%", Keys()), "4_8");
  OutputKeys keys = Keys();
  keys.process.arguments = {".."};
  EXPECT_EQ(ExpandOutputKeys("%tag%/x", keys), "_/x");
  keys.process.arguments = {std::string("a\nb\0c", 5)};
  EXPECT_EQ(ExpandOutputKeys("%arg0%", keys), "a_b_c");
  EXPECT_LE(CleanPathPart(std::string(10'000, 'x')).size(), 255u);
}

TEST(NamesOneFilePerProcess, SeesKeysThatDiffer) {
  EXPECT_TRUE(NamesOneFilePerProcess("%hostname%/%pid%"));
  EXPECT_TRUE(NamesOneFilePerProcess("{pid}"));
  EXPECT_TRUE(NamesOneFilePerProcess("x-%tag%"));
  EXPECT_TRUE(NamesOneFilePerProcess("%p"));
  EXPECT_FALSE(NamesOneFilePerProcess("%hostname%/run"));
  EXPECT_FALSE(NamesOneFilePerProcess("run"));
}

}  // namespace
}  // namespace rocattach
