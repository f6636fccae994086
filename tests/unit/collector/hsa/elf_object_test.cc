#include "userspace/collector/hsa/elf_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <math.h>
#include <stdio.h>

#include <memory>

namespace rocattach::collector {
namespace {

int g_data = 1;

TEST(ElfObjectTest, FindsTheObjectOfAnAddress) {
  ElfObject libc, self;
  ASSERT_TRUE(ElfObject::Find(dlsym(RTLD_DEFAULT, "getppid"), &libc));
  EXPECT_NE(std::string(libc.name()).find("libc.so"), std::string::npos) << libc.name();
  ASSERT_TRUE(ElfObject::Find(&g_data, &self));
  EXPECT_STREQ(self.name(), "");
  EXPECT_TRUE(self.Contains(&g_data, sizeof(g_data), PF_R | PF_W));
  EXPECT_FALSE(self.Contains(&g_data, sizeof(g_data), PF_X));
  EXPECT_FALSE(libc.Contains(&g_data));
  EXPECT_FALSE(self.Contains(&g_data, size_t{1} << 40)) << "not all of it";
}

TEST(ElfObjectTest, NoObjectForHeapAndStack) {
  ElfObject object;
  auto heap = std::make_unique<int>(1);
  int local = 1;
  EXPECT_FALSE(ElfObject::Find(heap.get(), &object));
  EXPECT_FALSE(ElfObject::Find(&local, &object));
  EXPECT_FALSE(ElfObject::Find(nullptr, &object));
}

TEST(ElfObjectTest, FindsFunctionsThatTheObjectDefines) {
  ElfObject libc;
  void* getppid_function = dlsym(RTLD_DEFAULT, "getppid");
  ASSERT_TRUE(ElfObject::Find(getppid_function, &libc));
  EXPECT_EQ(libc.Function("getppid").address, getppid_function);
  EXPECT_EQ(libc.Function("no_such_function_of_libc").address, nullptr);
  EXPECT_EQ(libc.Function("").address, nullptr);
  EXPECT_EQ(libc.Function("environ").address, nullptr) << "data";
  EXPECT_GT(libc.Function("getppid").bytes, 0u);
  EXPECT_LT(libc.Function("getppid").bytes, 4096u);
}

// Symbols that an object only uses are not found in it.
TEST(ElfObjectTest, UndefinedSymbolsAreNotFound) {
  ElfObject stdcxx;
  ASSERT_TRUE(ElfObject::Find(dlsym(RTLD_DEFAULT, "__cxa_throw"), &stdcxx));
  EXPECT_NE(stdcxx.Function("__cxa_throw").address, nullptr);
  EXPECT_EQ(stdcxx.Function("getppid").address, nullptr);
  EXPECT_EQ(stdcxx.Function("abort").address, nullptr);
}

}  // namespace
}  // namespace rocattach::collector
