#include "userspace/attribution/job_mappings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

using Answer = JobMappings::Answer;

std::string Json(const std::string& job, const std::string& user,
                 const std::string& gpus) {
  return absl::StrCat(R"({"SLURM_JOB_ID": ")", job, R"(", "SLURM_JOB_USER": ")", user,
                      R"(", "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_GPUS": ")", gpus,
                      "\"}\n");
}

TEST(ParseJobMappingTest, BothFormats) {
  const auto json = ParseJobMapping(Json("42", "ada", "0,2-3"), 3);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->jobs, std::set<std::string>{"42"});
  EXPECT_EQ(json->user, "ada");
  EXPECT_TRUE(ParseJobMapping(Json("42", "ada", ""), 3).ok()) << "it names no GPUs";
  EXPECT_TRUE(ParseJobMapping(Json("42", "ada", "131"), 3).ok()) << "modulo 128";
  EXPECT_TRUE(ParseJobMapping(R"({"SLURM_JOB_ID": 42})", 3).ok());
  const auto lines = ParseJobMapping("42\n\n 43 \r\n", 3);
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->jobs, (std::set<std::string>{"42", "43"}));
  EXPECT_EQ(lines->user, "");
  EXPECT_TRUE(ParseJobMapping("", 3)->jobs.empty());
}

TEST(ParseJobMappingTest, RejectsTextThatIsNeitherJsonNorJobList) {
  for (const std::string& text :
       {Json("42", "ada", "0,1"), Json("42", "ada", "zero"), Json("42", "ada", "3-1"),
        Json("0", "ada", "3"), Json("-1", "ada", "3"), Json("4 2", "ada", "3"),
        Json("99999999999", "ada", "3"), Json("42", std::string(300, 'a'), "3"),
        Json("42", "\xff", "3"), std::string("{"), std::string("{}"),
        std::string(R"({"SLURM_JOB_ID": ["42"]})"),
        std::string(R"({"SLURM_JOB_ID": "42", "SLURM_JOB_USER": {}})"),
        std::string("42\nalpha\n"), std::string("42_7\n"), std::string("+42"),
        std::string(1, '\0'), "{" + std::string(60000, '[')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseJobMapping(text, 3).status())) << text;
  }
  std::string many;
  for (int i = 1; i <= 2000; ++i) absl::StrAppend(&many, i, "\n");
  EXPECT_FALSE(ParseJobMapping(many, 3).ok());
}

class JobMappingsTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    ASSERT_EQ(chmod((folder_ / name).c_str(), 0644), 0);
  }
  Answer Find(const std::vector<uint32_t>& gpus, uid_t uid = 7777) {
    job_.clear();
    return mappings_.Find(gpus, uid, 1, &job_);
  }

  const testing_support::TemporaryDirectory folder_;
  JobMappings mappings_{folder_.path()};
  std::string job_;
};

TEST_F(JobMappingsTest, OneJobThatHasAllGpusIsFound) {
  Write("0", "42\n43\n");
  Write("1", "42\n");
  Write("2", "44\n");
  Write("0.1", "45\n");
  Write("notes", "not a mapping");
  EXPECT_EQ(Find({1}), Answer::kUnknown) << "nothing was read yet";
  ASSERT_TRUE(mappings_.Refresh().ok());
  EXPECT_EQ(Find({1}), Answer::kFound);
  EXPECT_EQ(job_, "42");
  EXPECT_EQ(Find({0, 1}), Answer::kFound);
  EXPECT_EQ(job_, "42");
  EXPECT_EQ(Find({0}), Answer::kAmbiguous) << "two jobs share it";
  EXPECT_EQ(Find({1, 2}), Answer::kAmbiguous) << "no job has both";
  EXPECT_EQ(Find({1, 3}), Answer::kUnknown);
  EXPECT_EQ(Find({}), Answer::kUnknown);
  EXPECT_EQ(mappings_.failures().malformed, 0u);
}

TEST_F(JobMappingsTest, ANamedUserMustOwnTheProcess) {
  Write("0", Json("42", "7777", "0"));
  Write("1", Json("43", "no-such-user-here", "1"));
  Write("2", Json("44", "root", "2"));
  ASSERT_TRUE(mappings_.Refresh().ok());
  EXPECT_EQ(Find({0}, 7777), Answer::kFound);
  EXPECT_EQ(job_, "42");
  EXPECT_EQ(Find({0}, 0), Answer::kAmbiguous);
  EXPECT_EQ(Find({1}), Answer::kAmbiguous);
  EXPECT_EQ(Find({2}, 0), Answer::kFound);
  EXPECT_EQ(job_, "44");
}

TEST_F(JobMappingsTest, AReadingOlderThanTheProcessIsNotUsed) {
  Write("0", "42\n");
  ASSERT_TRUE(mappings_.Refresh().ok());
  const uint64_t now_ns = BootNs() + 1;
  EXPECT_EQ(mappings_.Find({0}, 0, now_ns, &job_), Answer::kUnknown);
  ASSERT_TRUE(mappings_.Refresh().ok());
  EXPECT_EQ(mappings_.Find({0}, 0, now_ns, &job_), Answer::kFound);
}

TEST_F(JobMappingsTest, AMappingRemovedByAnEpilogIsForgotten) {
  Write("0", "42\n");
  ASSERT_TRUE(mappings_.Refresh().ok());
  std::filesystem::remove(folder_ / "0");
  ASSERT_TRUE(mappings_.Refresh().ok());
  EXPECT_EQ(Find({0}), Answer::kUnknown);
  std::filesystem::remove_all(folder_.path());
  EXPECT_TRUE(absl::IsNotFound(mappings_.Refresh()));
  EXPECT_EQ(mappings_.failures().unreadable, 1u);
  std::filesystem::create_directory(folder_.path());
}

TEST_F(JobMappingsTest, OnlyTrustworthyFilesOfLimitedLengthAreRead) {
  Write("target", "42\n");
  std::filesystem::create_symlink(folder_ / "target", folder_ / "0");
  std::filesystem::create_directory(folder_ / "1");
  ASSERT_EQ(mkfifo((folder_ / "2").c_str(), 0600), 0);
  Write("3", std::string(JobMappings::kMostFileBytes, '\n') + "42");
  Write("4", "42\n");
  ASSERT_EQ(chmod((folder_ / "4").c_str(), 0666), 0);
  Write("5", "garbage");
  Write("6", std::string(JobMappings::kMostFileBytes - 2, '\n') + "42");
  const absl::Status status = mappings_.Refresh();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(folder_.path()), absl::string_view::npos) << status;
  for (uint32_t gpu = 0; gpu <= 5; ++gpu) EXPECT_EQ(Find({gpu}), Answer::kUnknown);
  EXPECT_EQ(Find({6}), Answer::kFound);
  EXPECT_EQ(mappings_.failures().unreadable, 5u);
  EXPECT_EQ(mappings_.failures().malformed, 1u);
}

TEST_F(JobMappingsTest, AFileThatAGroupCanWriteIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file to a group";
  for (const char* name : {"0", "1"}) {
    Write(name, "42\n");
    ASSERT_EQ(chmod((folder_ / name).c_str(), 0664), 0);
  }
  ASSERT_EQ(chown((folder_ / "1").c_str(), 0, 1234), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(mappings_.Refresh()));
  EXPECT_EQ(Find({0}), Answer::kFound) << "root's group";
  EXPECT_EQ(Find({1}), Answer::kUnknown);
}

TEST_F(JobMappingsTest, AFileOfAnotherUserIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  Write("0", "42\n");
  ASSERT_EQ(chown((folder_ / "0").c_str(), 7777, 7777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(mappings_.Refresh()));
  EXPECT_EQ(Find({0}), Answer::kUnknown);
}

TEST_F(JobMappingsTest, FilesAreBounded) {
  for (size_t i = 0; i <= JobMappings::kMostFiles; ++i) Write(absl::StrCat(i), "42\n");
  ASSERT_TRUE(mappings_.Refresh().ok());
  EXPECT_EQ(mappings_.failures().crowded, 1u);
}

}  // namespace
}  // namespace rocattach
