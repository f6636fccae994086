// The built librocattach-collector.so, examined as a file and loaded into a process.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/unit/collector/hsa/table_runtime/table_runtime.h"
#include "tests/unit/collector/test_memory.h"
#include "userspace/base/file.h"

namespace rocattach::collector {
namespace {

class LibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto bytes = ReadFile(ROCATTACH_COLLECTOR_PATH, 16 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    image_ = *std::move(bytes);
    memcpy(&header_, image_.data(), sizeof(header_));
    ASSERT_EQ(memcmp(header_.e_ident, ELFMAG, SELFMAG), 0);
    sections_.resize(header_.e_shnum);
    memcpy(sections_.data(), image_.data() + header_.e_shoff,
           header_.e_shnum * sizeof(Elf64_Shdr));
  }
  template <typename T>
  std::vector<T> Table(uint32_t type, const Elf64_Shdr** section = nullptr) const {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != type) continue;
      if (section != nullptr) *section = &s;
      std::vector<T> table(s.sh_size / sizeof(T));
      memcpy(table.data(), image_.data() + s.sh_offset, table.size() * sizeof(T));
      return table;
    }
    return {};
  }
  // `user` is the section returned by Table().
  std::string String(const Elf64_Shdr* user, uint64_t offset) const {
    if (user == nullptr) return "";
    return image_.data() + sections_[user->sh_link].sh_offset + offset;
  }
  std::string image_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
};

TEST_F(LibraryTest, ExportsOnlyItsEntryPoints) {
  const Elf64_Shdr* section = nullptr;
  std::set<std::string> exported;
  for (const Elf64_Sym& symbol : Table<Elf64_Sym>(SHT_DYNSYM, &section)) {
    if (symbol.st_shndx != SHN_UNDEF && symbol.st_name != 0) {
      exported.insert(String(section, symbol.st_name));
    }
  }
  EXPECT_EQ(exported, (std::set<std::string>{
                          "OnLoad", "OnUnload", "rocattach_collector_ready",
                          "rocattach_collector_start", "rocattach_collector_unloaded",
                          "rocprofiler_configure", "rocprofiler_configure_attach"}));
}

TEST_F(LibraryTest, NeedsOnlyLibc) {
  const Elf64_Shdr* section = nullptr;
  std::set<std::string> needed;
  uint64_t flags1 = 0;
  for (const Elf64_Dyn& entry : Table<Elf64_Dyn>(SHT_DYNAMIC, &section)) {
    if (entry.d_tag == DT_NEEDED) needed.insert(String(section, entry.d_un.d_val));
    if (entry.d_tag == DT_FLAGS_1) flags1 = entry.d_un.d_val;
  }
  EXPECT_EQ(needed, (std::set<std::string>{"libc.so.6"}));
  EXPECT_TRUE(flags1 & DF_1_NODELETE);
}

TEST_F(LibraryTest, NeedsNoSymbolNewerThanGlibc217) {
  const Elf64_Shdr* section = nullptr;
  (void)Table<char>(SHT_GNU_verneed, &section);
  ASSERT_NE(section, nullptr);
  std::vector<std::string> versions;
  uint64_t at = section->sh_offset;
  for (uint32_t i = 0; i < section->sh_info; ++i) {
    Elf64_Verneed need;
    memcpy(&need, image_.data() + at, sizeof(need));
    uint64_t aux_at = at + need.vn_aux;
    for (uint32_t j = 0; j < need.vn_cnt; ++j) {
      Elf64_Vernaux aux;
      memcpy(&aux, image_.data() + aux_at, sizeof(aux));
      versions.push_back(String(section, aux.vna_name));
      aux_at += aux.vna_next;
    }
    at += need.vn_next;
  }
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    ASSERT_TRUE(absl::StartsWith(version, "GLIBC_")) << version;
    std::vector<std::string> parts = absl::StrSplit(version.substr(6), '.');
    int major = 0, minor = 0;
    ASSERT_TRUE(absl::SimpleAtoi(parts[0], &major)) << version;
    ASSERT_TRUE(absl::SimpleAtoi(parts[1], &minor)) << version;
    EXPECT_TRUE(major == 2 && minor <= 17) << version;
  }
}

TEST_F(LibraryTest, HasNoThreadLocalStorage) {
  std::vector<Elf64_Phdr> segments(header_.e_phnum);
  memcpy(segments.data(), image_.data() + header_.e_phoff,
         segments.size() * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : segments) EXPECT_NE(segment.p_type, PT_TLS);
}

// The collector's memory in this process, found as the service finds it.
rocattach_control* FindMemory() {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[512];
  void* found = nullptr;
  while (found == nullptr && fgets(line, sizeof(line), maps) != nullptr) {
    if (strstr(line, "/memfd:" ROCATTACH_SHM_NAME) != nullptr) {
      found = reinterpret_cast<void*>(strtoull(line, nullptr, 16));
    }
  }
  fclose(maps);
  return static_cast<rocattach_control*>(found);
}

bool IsSet(const char* variable, const char* value) {
  const char* found = getenv(variable);
  return found != nullptr && strcmp(found, value) == 0;
}

// Runs in a process of its own: the effects of start cannot be undone.
int TryAsGuest() {
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  auto on_load =
      reinterpret_cast<bool (*)(void*, uint64_t, uint64_t, const char* const*)>(
          dlsym(library, "OnLoad"));
  auto on_unload = reinterpret_cast<void (*)()>(dlsym(library, "OnUnload"));
  if (start == nullptr || on_load == nullptr || on_unload == nullptr) return 11;
  // Without a start before, OnLoad does nothing, whatever the table.
  uint64_t unknown_table[8] = {};
  if (!on_load(unknown_table, 1, 0, nullptr)) return 12;
  on_unload();
  if (start(nullptr) != EINVAL) return 13;
  rocattach_collector_config config = SmallConfig();
  config.version = 99;
  if (start(&config) != EINVAL || getenv("HSA_TOOLS_LIB") != nullptr) return 14;
  config = SmallConfig();
  if (start(&config) != 0) return 15;
  if (!IsSet("HSA_TOOLS_LIB", config.collector_path)) return 16;
  if (start(&config) != 0) return 17;
  // A child of an attached process may be attached itself.
  pid_t child = fork();
  if (child == 0) {
    rocattach_control* inherited = FindMemory();
    if (start(&config) != 0) _exit(1);
    _exit(FindMemory() != nullptr && FindMemory()->pid == getpid() &&
                  inherited != nullptr
              ? 42
              : 2);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 42) return 21;
  // An unknown table is refused, and the application runs on.
  if (!on_load(unknown_table, 1, 0, nullptr)) return 18;
  if (getenv("HSA_TOOLS_LIB") != nullptr) return 19;
  if (dlclose(library) != 0) return 20;
  return 0;
}

// The slots, among the first `count` of the table, whose function is no longer the
// runtime's.
std::set<size_t> Replaced(const collector::ApiTable& table, size_t count,
                          const void* function) {
  std::set<size_t> slots;
  for (size_t i = 0; i < count; ++i) {
    if (table.slots[i] != function) slots.insert(i);
  }
  return slots;
}

// A runtime with such tables loads the collector. Returns 0, or what went wrong.
int TryTables(const char* name, bool known) {
  const collector::TableRuntime runtime(name);
  if (!runtime.loaded()) return 9;
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  auto on_load =
      reinterpret_cast<bool (*)(void*, uint64_t, uint64_t, const char* const*)>(
          dlsym(library, "OnLoad"));
  rocattach_collector_config config = SmallConfig();
  config.map_wait_msec = 1;
  if (start(&config) != 0) return 11;
  collector::ApiTableRoot root = runtime.root();
  if (!on_load(&root, 1, 0, nullptr)) return 12;
  rocattach_control* control = FindMemory();
  if (control == nullptr ||
      control->amd_table_bytes != root.amd_ext->version.minor_id) {
    return 13;
  }
  const std::set<size_t> core = Replaced(*root.core, 125, runtime.function());
  const std::set<size_t> amd =
      Replaced(*root.amd_ext, runtime.Slots().size(), runtime.function());
  if (!known) {
    if (control->state != ROCATTACH_STATE_REFUSED) return 14;
    if (control->reason != ROCATTACH_REASON_UNKNOWN_TABLE) return 15;
    if (control->text[0] == '\0') return 16;
    return core.empty() && amd.empty() ? 0 : 17;
  }
  if (control->state != ROCATTACH_STATE_ARMED) return 18;
  if (core != std::set<size_t>{1, 7, 9, 33, 34, 35, 38, 39, 40, 41, 42, 43, 44, 84, 86,
                               102, 103})
    return 19;
  std::set<size_t> expected;
  std::map<std::string, uint32_t> slots = runtime.Slots();
  for (const char* hooked :
       {"profiling_set_profiler_enabled", "profiling_async_copy_enable",
        "memory_pool_allocate", "memory_pool_free", "memory_async_copy",
        "memory_async_copy_on_engine", "queue_intercept_create",
        "memory_async_copy_rect", "memory_async_batch_copy", "queue_create"}) {
    if (slots.count(hooked) != 0) expected.insert(slots[hooked]);
  }
  if (amd != expected) return 20;
  return absl::StartsWith(control->backend_text, "not understood") ? 21 : 0;
}

// Tests that load the library into this process, for which ThreadSanitizer is not made.
class LibraryGuestTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP()
        << "ThreadSanitizer cannot follow threads of an uninstrumented library";
#endif
  }
};

// Makes this call fail with EPERM from now on, as a container's filter may do.
bool Deny(int number) {
  const auto nr = static_cast<uint32_t>(number);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// Returns the result of start without this call, plus 100; 0 to 99: what went wrong.
int StartWithout(int number, bool locked) {
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  if (locked && mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 11;
  if (!Deny(number)) return 12;
  const rocattach_collector_config config = SmallConfig();
  const int error = start(&config);
  // A start that fails leaves nothing behind.
  if (error != 0 && FindMemory() != nullptr) return 13;
  return 100 + error;
}

struct DeniedCase {
  int number;
  int error;  // 0: start works without this call
};

TEST_F(LibraryGuestTest, ADeniedCallIsTolerated) {
  for (const DeniedCase& test : {
           DeniedCase{SYS_munlock, 0},
           DeniedCase{SYS_prctl, 0},
           DeniedCase{SYS_sched_yield, 0},
           DeniedCase{SYS_nanosleep, 0},
           DeniedCase{SYS_clock_nanosleep, 0},
           DeniedCase{SYS_set_robust_list, 0},
           DeniedCase{SYS_rt_sigprocmask, 0},
           DeniedCase{SYS_memfd_create, EPERM},
           DeniedCase{SYS_ftruncate, EPERM},
           DeniedCase{SYS_fcntl, EPERM},
           DeniedCase{SYS_prlimit64, EPERM},
           DeniedCase{SYS_mmap, EPERM},
           DeniedCase{SYS_mprotect, EPERM},
           DeniedCase{SYS_madvise, EPERM},
           DeniedCase{SYS_clone3, EPERM},
       }) {
    EXPECT_EXIT(_exit(StartWithout(test.number, false)),
                testing::ExitedWithCode(100 + test.error), "")
        << "system call " << test.number;
  }
}

TEST_F(LibraryGuestTest, MunlockIsNotNeededWhereEverythingIsLocked) {
  if (geteuid() != 0) GTEST_SKIP() << "needs CAP_IPC_LOCK";
  EXPECT_EXIT(_exit(StartWithout(SYS_munlock, true)), testing::ExitedWithCode(100), "");
}

TEST_F(LibraryGuestTest, HooksTheRightSlotsOfEveryOrder) {
  for (const char* name : {"400", "456", "608", "672", "branch_672", "704",
                           "branch_704", "branch_720", "752", "later"}) {
    EXPECT_EXIT(_exit(TryTables(name, true)), testing::ExitedWithCode(0), "") << name;
  }
}

TEST_F(LibraryGuestTest, TouchesNoTableThatIsNotUnderstood) {
  for (const char* name : {"overlap", "foreign_table", "no_size"}) {
    EXPECT_EXIT(_exit(TryTables(name, false)), testing::ExitedWithCode(0), "") << name;
  }
}

// OnLoad is not called: another tool library took precedence, or hsa_init failed.
int TryWithoutOnLoad() {
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  rocattach_collector_config config = SmallConfig();
  if (start(&config) != 0 || getenv("HSA_TOOLS_LIB") == nullptr) return 11;
  for (int i = 0; i < 600; ++i) {
    if (getenv("HSA_TOOLS_LIB") == nullptr) return 0;
    usleep(100'000);
  }
  return 12;
}

TEST_F(LibraryGuestTest, RemovesTheVariableIfOnLoadIsNotCalled) {
  unsetenv("HSA_TOOLS_LIB");
  EXPECT_EXIT(_exit(TryWithoutOnLoad()), testing::ExitedWithCode(0), "");
}

// The SDK was not requested, but the process's own SDK finds us among its libraries.
int TryToBeFound() {
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  using Configure = void* (*)(uint32_t, const char*, uint32_t, void*);
  auto configure = reinterpret_cast<Configure>(dlsym(library, "rocprofiler_configure"));
  auto attach =
      reinterpret_cast<Configure>(dlsym(library, "rocprofiler_configure_attach"));
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  if (configure == nullptr || attach == nullptr) return 11;
  // No other code finds it either: that would bring the SDK into every process.
  if (dlsym(RTLD_DEFAULT, "rocprofiler_configure") != nullptr) return 12;
  uint64_t client[3] = {24, 0, 0};
  if (configure(10305, "1.3.5", 0, client) != nullptr) return 13;
  rocattach_collector_config config = SmallConfig();
  if (start(&config) != 0) return 14;
  if (configure(10305, "1.3.5", 0, client) != nullptr || client[1] != 0) return 15;
  return attach(10305, "1.3.5", 0, client) == nullptr ? 0 : 16;
}

// The SDK is too old, so the collector falls back to the runtime's HSA tools.
int TryOtherSdks() {
  const collector::TableRuntime runtime("608");
  void* library = dlopen(ROCATTACH_COLLECTOR_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !runtime.loaded()) return 10;
  using Configure = void* (*)(uint32_t, const char*, uint32_t, void*);
  auto configure = reinterpret_cast<Configure>(dlsym(library, "rocprofiler_configure"));
  auto start = reinterpret_cast<int (*)(const rocattach_collector_config*)>(
      dlsym(library, ROCATTACH_COLLECTOR_START));
  auto on_load =
      reinterpret_cast<bool (*)(void*, uint64_t, uint64_t, const char* const*)>(
          dlsym(library, "OnLoad"));
  rocattach_collector_config config = SmallConfig();
  config.map_wait_msec = 1;
  config.backend = ROCATTACH_BACKEND_SDK;
  if (start(&config) != 0) return 11;
  if (!IsSet("ROCP_TOOL_LIBRARIES", config.collector_path)) return 12;
  uint64_t client[3] = {24, 0, 0};
  if (configure(600, "0.6.0", 0, client) != nullptr) return 13;
  // The runtime then loads the HSA tools, which include the collector.
  collector::ApiTableRoot root = runtime.root();
  if (!on_load(&root, 1, 0, nullptr)) return 14;
  rocattach_control* control = FindMemory();
  if (control->backend != ROCATTACH_BACKEND_HSA_TOOLS) return 15;
  if (control->backend_reason != ROCATTACH_BACKEND_REASON_SDK_VERSION) return 16;
  if (strstr(control->backend_text, "0.6.0") == nullptr) return 17;
  if (getenv("ROCP_TOOL_LIBRARIES") != nullptr) return 18;
  return control->state == ROCATTACH_STATE_ARMED ? 0 : 19;
}

TEST_F(LibraryGuestTest, DeclinesWhereTheSdkWasNotRequested) {
  EXPECT_EXIT(_exit(TryToBeFound()), testing::ExitedWithCode(0), "");
}

TEST_F(LibraryGuestTest, DeclinesSdksThatAreTooOldAndFallsBack) {
  unsetenv("ROCP_TOOL_LIBRARIES");
  EXPECT_EXIT(_exit(TryOtherSdks()), testing::ExitedWithCode(0), "");
}

TEST_F(LibraryGuestTest, BehavesWithoutARuntime) {
  unsetenv("HSA_TOOLS_LIB");
  EXPECT_EXIT(exit(TryAsGuest()), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace rocattach::collector
