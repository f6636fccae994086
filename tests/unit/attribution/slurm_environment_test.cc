#include "userspace/attribution/slurm_environment.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace rocattach {
namespace {

std::pair<std::string, std::string> SlurmWorkload(std::string environment) {
  for (char& c : environment) {
    if (c == '|') c = '\0';
  }
  WorkloadIdentity workload;
  FillFromEnvironment(environment, &workload);
  return {workload.slurm_job, workload.slurm_step};
}

using Job = std::pair<std::string, std::string>;

TEST(SlurmEnvironmentTest, JobsAndSteps) {
  EXPECT_EQ(SlurmWorkload("A=1|SLURM_JOB_ID=12|SLURM_STEP_ID=3|B=2|"), Job("12", "3"));
  EXPECT_EQ(SlurmWorkload("SLURM_STEP_ID=0|SLURM_JOB_ID=12"), Job("12", "0"));
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|"), Job("12", ""));
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|SLURM_STEP_ID=4294967291|"),
            Job("12", "batch"));
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|SLURM_STEP_ID=4294967292|"),
            Job("12", "extern"));
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|SLURM_STEP_ID=4294967290|"),
            Job("12", "interactive"));
}

TEST(SlurmEnvironmentTest, InvalidJobsAndStepsAreIgnored) {
  for (const char* text :
       {"", "|", "SLURM_JOB_ID=", "SLURM_JOB_ID=0|", "SLURM_JOB_ID=-1|",
        "SLURM_JOB_ID=99999999999|", "SLURM_JOB_ID=\xff\xfe|", "XSLURM_JOB_ID=4|",
        "SLURM_STEP_ID=4|"}) {
    EXPECT_EQ(SlurmWorkload(text), Job()) << text;
  }
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|SLURM_STEP_ID=x|"), Job("12", ""));
  EXPECT_EQ(SlurmWorkload("SLURM_JOB_ID=12|SLURM_STEP_ID=4294967294|"), Job("12", ""));
}

TEST(SlurmEnvironmentTest, TheControlGroupTakesPrecedence) {
  WorkloadIdentity workload;
  workload.slurm_job = "7";
  FillFromEnvironment("SLURM_JOB_ID=12", &workload);
  EXPECT_EQ(workload.slurm_job, "7");
}

TEST(SlurmEnvironmentTest, PartsOfAJobArray) {
  using Text = absl::string_view;
  const auto array_of = [](Text environment, const char* known_job) {
    WorkloadIdentity workload;
    workload.slurm_job = known_job;
    FillFromEnvironment(environment, &workload);
    return std::pair(workload.slurm_array_job, workload.slurm_array_task);
  };
  constexpr Text kPart("SLURM_JOB_ID=12\0SLURM_ARRAY_JOB_ID=11\0SLURM_ARRAY_TASK_ID=0",
                       59);
  EXPECT_EQ(array_of(kPart, ""), Job("11", "0"));
  EXPECT_EQ(array_of(kPart, "12"), Job("11", "0")) << "known by its group";
  EXPECT_EQ(array_of(kPart, "13"), Job("", "")) << "of another job";
  EXPECT_EQ(array_of(kPart.substr(0, 38), ""), Job("", "")) << "half of it";
  EXPECT_EQ(array_of(kPart.substr(16), ""), Job("", "")) << "no job";
}

}  // namespace
}  // namespace rocattach
