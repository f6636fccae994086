// Registration: every status, in the documented order of checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/simrocm/register_library.h"

namespace rocattach {
namespace {

uint32_t ImportFunction() {
  return 1;
}

TEST(Register, CountsTablesBeforeAnythingElse) {
  InChild([](LoadedRegister& library) {
    setenv("ROCPROFILER_REGISTER_ENABLED", "0", 1);
    EXPECT_EQ(library.register_table("nonsense", nullptr, 1, nullptr, 0, &library.id),
              ROCATTACH_REGISTER_BAD_API_TABLE_LENGTH);
  });
}

TEST(Register, CanBeSwitchedOffBeforeNamesAreLookedAt) {
  InChild([](LoadedRegister& library) {
    setenv("ROCPROFILER_REGISTER_ENABLED", "off", 1);
    EXPECT_EQ(library.Register("nonsense"), ROCATTACH_REGISTER_NO_TOOLS);
  });
}

TEST(Register, KnowsItsLibraries) {
  InChild([](LoadedRegister& library) {
    for (const char* name : {"hsa", "hip", "roctx", "hip_compiler", "rccl", "rocdecode",
                             "rocjpeg", "rocattach", "hipFile", "rocshmem"}) {
      EXPECT_EQ(library.Register(name), ROCATTACH_REGISTER_NO_TOOLS) << name;
    }
    for (const char* name : {"", "HSA", "hsa2", "ompt"}) {
      EXPECT_EQ(library.Register(name), ROCATTACH_REGISTER_UNSUPPORTED_API) << name;
    }
  });
}

TEST(Register, SecureModeLooksAtTheImportFunction) {
  InChild([](LoadedRegister& library) {
    setenv("ROCPROFILER_REGISTER_SECURE", "1", 1);
    void* tables[] = {nullptr};
    EXPECT_EQ(
        library.register_table("nonsense", &ImportFunction, 1, tables, 1, &library.id),
        ROCATTACH_REGISTER_UNSUPPORTED_API);
    EXPECT_EQ(library.register_table("hsa", &ImportFunction, 1, tables, 1, &library.id),
              ROCATTACH_REGISTER_INVALID_API_ADDRESS);
    // Without an import function there is nothing to check.
    EXPECT_EQ(library.Register("hsa"), ROCATTACH_REGISTER_NO_TOOLS);
    setenv("ROCPROFILER_REGISTER_SECURE", "0", 1);
    EXPECT_EQ(library.register_table("hsa", &ImportFunction, 1, tables, 1, &library.id),
              ROCATTACH_REGISTER_NO_TOOLS);
  });
}

TEST(Register, LimitsInstancesAndNumbersThem) {
  InChild([](LoadedRegister& library) {
    std::vector<uint64_t> ids;
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(library.Register("rccl"), ROCATTACH_REGISTER_NO_TOOLS);
      ids.push_back(library.id.handle);
    }
    EXPECT_EQ(library.Register("rccl"), ROCATTACH_REGISTER_EXCESS_API_INSTANCES);
    EXPECT_THAT(ids, testing::ElementsAre(24, 25, 26, 27, 28, 29));
    EXPECT_EQ(library.Register("hsa"), ROCATTACH_REGISTER_NO_TOOLS);
    EXPECT_EQ(library.id.handle, 0u);
  });
}

TEST(Register, GivesTablesToTheSdkOnce) {
  UseFakeSdk("");
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hsa", 11800), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.Register("hip", 60000), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.Register("hsa", 11801), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "hsa/11800/0/1 hip/60000/0/1 hsa/11801/1/1 ");
    EXPECT_EQ(library.invoke_new(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "hsa/11800/0/1 hip/60000/0/1 hsa/11801/1/1 ");
    EXPECT_EQ(library.invoke_all(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(),
              "hsa/11800/0/1 hip/60000/0/1 hsa/11801/1/1 "
              "hsa/11800/0/1 hip/60000/0/1 hsa/11801/1/1 ");
  });
}

TEST(Register, KeepsTablesUntilAToolComes) {
  unsetenv("ROCPROFILER_REGISTER_LIBRARY");
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hip_compiler", 1), ROCATTACH_REGISTER_NO_TOOLS);
    EXPECT_EQ(library.invoke_new(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "not loaded");
    UseFakeSdk("");
    EXPECT_EQ(library.invoke_new(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "hip_compiler/1/0/1 ");
  });
}

TEST(Register, ReportsTheSdksError) {
  UseFakeSdk("error");
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hsa"), ROCATTACH_REGISTER_ROCPROFILER_ERROR);
    EXPECT_EQ(library.invoke_all(), ROCATTACH_REGISTER_ROCPROFILER_ERROR);
  });
}

TEST(Register, NoticesThatItIsCalledFromWithin) {
  UseFakeSdk("reenter");
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hsa", 1), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "hsa/1/0/1 reentered=2 invoked=2 ");
  });
}

TEST(Register, AnotherThreadWaitsInsteadOfFailing) {
  UseFakeSdk("slow");
  InChild([](LoadedRegister& library) {
    std::vector<int> statuses(4, -1);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < statuses.size(); ++i) {
      threads.emplace_back([&, i] {
        void* tables[] = {nullptr};
        rocattach_register_id id{};
        statuses[i] = library.register_table("roctx", nullptr, 1, tables, 1, &id);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(statuses, testing::Each(ROCATTACH_REGISTER_SUCCESS));
  });
}

TEST(Register, AVisibleToolWithoutSdkIsFatal) {
  setenv("ROCPROFILER_REGISTER_LIBRARY", "/no/such/sdk.so", 1);
  EXPECT_EXIT(
      {
        LoadedRegister library;
        library.Register("hsa");
      },
      testing::KilledBySignal(SIGABRT), "rocprofiler_set_api_table was not found");
  // If loading is switched off, the same is harmless.
  setenv("ROCPROFILER_REGISTER_FORCE_LOAD", "0", 1);
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hsa"), ROCATTACH_REGISTER_NO_TOOLS);
  });
  unsetenv("ROCPROFILER_REGISTER_FORCE_LOAD");
  unsetenv("ROCPROFILER_REGISTER_LIBRARY");
}

TEST(Register, IteratesOverRegisteredLibraries) {
  unsetenv("ROCPROFILER_REGISTER_LIBRARY");
  InChild([](LoadedRegister& library) {
    library.Register("hsa", 1);
    library.Register("hip", 2);
    library.Register("roctx", 3);
    std::vector<std::string> seen;
    auto record = [](rocattach_register_info* info, void* data) {
      auto* list = static_cast<std::vector<std::string>*>(data);
      list->push_back(std::string(info->common_name) + "/" +
                      std::to_string(info->lib_version) + "/" +
                      std::to_string(info->api_table_length) + "/" +
                      std::to_string(info->size));
      return list->size() == 2 ? 1 : 0;
    };
    EXPECT_EQ(library.iterate(record, &seen), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_THAT(seen, testing::ElementsAre("hsa/1/1/32", "hip/2/1/32"));
  });
}

TEST(Register, HasATextForEveryStatus) {
  InChild([](LoadedRegister& library) {
    std::vector<std::string> texts;
    for (int status = 0; status < 10; ++status) {
      texts.push_back(library.error_string(status));
      for (int other = 0; other < status; ++other) {
        EXPECT_NE(texts[status], texts[other]);
      }
    }
    EXPECT_STREQ(library.error_string(10), "rocprofiler_register_unknown_error");
  });
}

}  // namespace
}  // namespace rocattach
