// Probes on files that a user may rename, replace and write.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "injector/elf/function_offset.h"
#include "tests/integration/hostile/hostile_harness.h"
#include "userspace/base/file.h"

namespace rocattach::testing_support {
namespace {

constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";
constexpr uint8_t kBreakpoint = 0xCC;
constexpr uint8_t kNop = 0x90;

// The byte at `offset` of the file as a process that maps it now would execute it.
uint8_t ExecutedByte(const std::string& path, uint64_t offset) {
  auto fd = OpenFile(path, O_RDONLY);
  EXPECT_TRUE(fd.ok()) << fd.status();
  if (!fd.ok()) return 0;
  const uint64_t page = offset & ~uint64_t{4095};
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd->get(),
                      static_cast<off_t>(page));
  EXPECT_NE(mapped, MAP_FAILED);
  if (mapped == MAP_FAILED) return 0;
  const uint8_t byte = static_cast<const volatile uint8_t*>(mapped)[offset - page];
  munmap(mapped, 4096);
  return byte;
}

class HostileProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    if (access(kRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kRuntime;
    users_ = directory_.path() + "/users";
    std::filesystem::create_directory(users_);
    library_ = users_ + "/libhsa-runtime64.so.1";
    std::filesystem::copy_file(std::filesystem::canonical(kRuntime), library_);
    auto fd = OpenFile(library_, O_RDONLY);
    ASSERT_TRUE(fd.ok()) << fd.status();
    auto offset = FindFunctionFileOffset(fd->get(), "hsa_init");
    ASSERT_TRUE(offset.ok()) << offset.status();
    offset_ = *offset;
  }
  void GiveTo(uid_t uid) {
    ASSERT_EQ(chown(users_.c_str(), uid, uid), 0);
    ASSERT_EQ(chown(library_.c_str(), uid, uid), 0);
  }

  ExecutableDirectory directory_;
  std::string users_;    // a user's directory
  std::string library_;  // a copy of the runtime in that directory
  uint64_t offset_ = 0;  // the offset of hsa_init
};

// The service looks at the file; by the time it sets the probe, the file has been
// renamed and its old name leads to a file of root's.
TEST_F(HostileProbeTest, AProbeGoesWhereWasLooked) {
  GiveTo(kAdversaryUid);
  const std::string victim = directory_.path() + "/victim";
  std::ofstream(victim) << std::string(std::filesystem::file_size(library_),
                                       static_cast<char>(kNop));
  Adversary adversary("hostile_library", {library_, victim});
  ASSERT_TRUE(adversary.Says("mapped"));
  LiveService service;
  ASSERT_TRUE(service.ready());
  ASSERT_TRUE(adversary.Says("swapped")) << "nobody has looked at the library";
  EXPECT_EQ(ExecutedByte(victim, offset_), kNop)
      << "a probe was put on a file that was never inspected";
  EXPECT_EQ(ExecutedByte(library_ + ".aside", offset_), kBreakpoint)
      << "the probe is not in the file that was looked at";
  adversary.Signal(SIGKILL);
  adversary.Wait();
  Neighbour neighbour(100);
  neighbour.Finish();
  neighbour.ExpectComplete(service.Stop());
}

// A user writes to a probed file: the middle of an instruction may now be where the
// probe was.
TEST_F(HostileProbeTest, AFileThatIsWrittenLosesItsProbe) {
  GiveTo(kAdversaryUid);
  LiveService service({"--auto", "--library", library_});
  ASSERT_TRUE(service.ready());
  ASSERT_EQ(ExecutedByte(library_, offset_), kBreakpoint);
  {
    std::fstream file(library_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset_ - 16));
    file << std::string(64, static_cast<char>(kNop));
    ASSERT_TRUE(file.flush().good());
  }
  EXPECT_TRUE(Eventually([&] { return ExecutedByte(library_, offset_) == kNop; }));
  Neighbour neighbour(100);  // through the distribution's copy
  neighbour.Finish();
  neighbour.ExpectComplete(service.Stop());
  const auto changed = service.watcher().Events("library_changed");
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0]["path"], library_);
}

// Files that have only the name of a runtime, in processes that end at once: nothing
// was missed, and another user must not be able to make it look so.
TEST_F(HostileProbeTest, FilesThatAreNoRuntimeAreNotMissed) {
  LiveService service;
  ASSERT_TRUE(service.ready());
  constexpr char kMapAll[] =
      "import mmap, os, sys\n"
      "for number in range(60):\n"
      "    if os.fork() == 0:\n"
      "        folder = sys.argv[1] + '/' + str(number)\n"
      "        os.mkdir(folder)\n"
      "        path = folder + '/libhsa-runtime64.so.1'\n"
      "        open(path, 'wb').write(b'x' * 5000)\n"
      "        file = os.open(path, os.O_RDONLY)\n"
      "        mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE,\n"
      "                  prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
      "        os._exit(0)\n"
      "    if number % 2: os.wait()\n"
      "while True:\n"
      "    try: os.wait()\n"
      "    except ChildProcessError: break\n";
  const Finished mapped = Child({"/usr/bin/python3", "-c", kMapAll, users_}).Wait();
  EXPECT_TRUE(mapped.exited_with(0)) << mapped.errors;
  Neighbour neighbour(100);
  neighbour.Finish();
  neighbour.ExpectComplete(service.Stop());
  const auto summaries = service.watcher().Events("summary");
  ASSERT_EQ(summaries.size(), 1u);
  for (const auto& [reason, count] : summaries[0]["missed_windows"].items()) {
    EXPECT_EQ(count, 0) << reason;
  }
}

// A user's own Python environment, with its own copy of the runtime.
TEST_F(HostileProbeTest, AUsersOwnLibraryIsStillRecorded) {
  GiveTo(kHonestUid);
  LiveService service({"--auto", "--library", library_});
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(1000, {}, {"LD_LIBRARY_PATH=" + users_});
  neighbour.Finish();
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  EXPECT_EQ(recording.Process(neighbour.pid()).process.hsa_library(), library_);
  const auto ready = service.watcher().Events("ready");
  ASSERT_EQ(ready.size(), 1u);
  bool told = false;
  for (const auto& writable : ready[0]["writable_libraries"]) {
    told = told || (writable["path"] == library_ &&
                    writable["by"] == "user " + std::to_string(kHonestUid));
  }
  EXPECT_TRUE(told) << ready[0];
}

}  // namespace
}  // namespace rocattach::testing_support
