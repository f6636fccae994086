#include "userspace/service/probed_libraries.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "injector/process/maps.h"
#include "tests/temporary_directory.h"
#include "tests/unit/injector/elf_builder.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Records where the probes are. `on_add` runs while a probe is being added.
struct FakeProbes : LibraryProbes {
  std::map<uint64_t, std::pair<std::string, uint64_t>> probes;  // by cookie
  std::vector<uint64_t> removed;
  std::function<absl::Status(uint64_t cookie)> on_add = [](uint64_t) {
    return absl::OkStatus();
  };
  absl::Status AddLibrary(const std::string& path, uint64_t file_offset,
                          uint64_t cookie) override {
    absl::Status status = on_add(cookie);
    if (status.ok()) probes[cookie] = {path, file_offset};
    return status;
  }
  void RemoveLibraries(const std::vector<uint64_t>& cookies) override {
    for (uint64_t cookie : cookies) {
      probes.erase(cookie);
      removed.push_back(cookie);
    }
  }
  std::vector<uint64_t> cookies() const {
    std::vector<uint64_t> all;
    for (const auto& [cookie, probe] : probes) all.push_back(cookie);
    return all;
  }
};

class ProbedLibrariesTest : public testing::Test {
 protected:
  std::string PathOf(int number) const {
    return absl::StrCat(directory_.path(), "/libhsa-runtime64.so.", number);
  }
  // Writes a runtime whose hsa_init is `offset` bytes behind the beginning of its code.
  // Overwrites an existing file in place, as cp does.
  void Write(int number, uint64_t offset) const {
    ElfBuilder elf;
    elf.symbols = {{.name = "hsa_init", .value = ElfBuilder::kCodeVaddr + offset}};
    std::string image = elf.Build();
    // The code is a sequence of one-byte instructions.
    image.replace(ElfBuilder::kCodeOffset, ElfBuilder::kCodeBytes,
                  ElfBuilder::kCodeBytes, '\x90');
    std::ofstream file(PathOf(number), std::ios::binary);
    file.write(image.data(), static_cast<std::streamsize>(image.size()));
    ASSERT_TRUE(file.flush());
  }
  ProbedLibraries Found(int count) const {
    LibraryScanOptions options;
    for (int number = 1; number <= count; ++number) {
      Write(number, 16 * static_cast<uint64_t>(number));
      // File times are coarse: set it back, so that a write right after this one shows.
      std::filesystem::last_write_time(PathOf(number), {});
      options.extra_paths.push_back(PathOf(number));
    }
    options.usual_places.clear();
    options.scan_mapped = false;
    LibraryScan scan = ScanLibraries(options);
    EXPECT_EQ(scan.copies.size(), static_cast<size_t>(count));
    EXPECT_THAT(scan.rejected, IsEmpty());
    return ProbedLibraries(std::move(scan));
  }
  std::vector<std::string> RemoveWritten(ProbedLibraries* libraries) {
    std::vector<std::string> paths;
    libraries->RemoveWritten(&probes_,
                             [&](const std::string& path) { paths.push_back(path); });
    return paths;
  }

  // Maps the copy as a process that loads it does. MAP_FAILED if that is not allowed.
  void* MapCopy(int number) const {
    auto fd = OpenFile(PathOf(number), O_RDONLY);
    EXPECT_TRUE(fd.ok()) << fd.status();
    if (!fd.ok()) return MAP_FAILED;
    return mmap(nullptr, kMappedBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd->get(),
                0);
  }

  static constexpr size_t kMappedBytes = 64 << 10;  // bytes of a copy
  const testing_support::TemporaryDirectory directory_;
  FakeProbes probes_;
};

TEST_F(ProbedLibrariesTest, EachCopyIsProbedAtItsInitByItsDescriptor) {
  ProbedLibraries libraries = Found(2);
  ASSERT_TRUE(libraries.SetProbes(&probes_).ok());
  ASSERT_THAT(probes_.cookies(), ElementsAre(1, 2));
  for (const uint64_t cookie : {1, 2}) {
    const auto& [path, offset] = probes_.probes[cookie];
    EXPECT_EQ(path, libraries.scan().copies[cookie - 1].file.ProbePath());
    EXPECT_EQ(offset, ElfBuilder::kCodeOffset + 16 * cookie);
  }
  EXPECT_THAT(libraries.scan().rejected, IsEmpty());
  EXPECT_THAT(RemoveWritten(&libraries), IsEmpty());
}

// The file did not exist at the start; a process has mapped it since.
TEST_F(ProbedLibrariesTest, ACopyThatAProcessHasLoadedSinceIsProbedOnce) {
  ProbedLibraries libraries = Found(2);
  ASSERT_TRUE(libraries.SetProbes(&probes_).ok());
  libraries.ProbeMappedBy(getpid(), &probes_);
  EXPECT_THAT(probes_.cookies(), ElementsAre(1, 2));

  Write(3, 48);
  void* const code = MapCopy(3);
  if (code == MAP_FAILED) GTEST_SKIP() << "the temporary directory is noexec";
  for (int i = 0; i < 2; ++i) libraries.ProbeMappedBy(getpid(), &probes_);
  EXPECT_THAT(probes_.cookies(), ElementsAre(1, 2, 3));
  EXPECT_EQ(probes_.probes[3].second, ElfBuilder::kCodeOffset + 48);
  EXPECT_EQ(std::filesystem::canonical(libraries.known()->PathOf(3)),
            std::filesystem::canonical(PathOf(3)));
  EXPECT_EQ(libraries.known()->PathOf(4), "");
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok());
  const Mapping* mapping = maps->Find(RemoteAddress(reinterpret_cast<uint64_t>(code)));
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(libraries.known()->Find(*mapping).cookie, 3u);
  // The new copy is watched like the others.
  Write(3, 64);
  EXPECT_EQ(RemoveWritten(&libraries).size(), 1u);
  EXPECT_THAT(probes_.removed, ElementsAre(3));
  munmap(code, kMappedBytes);
}

// A copy that was found later loses its probe when its file is gone, unless a process
// has mapped it or asks for it meanwhile.
TEST_F(ProbedLibrariesTest, ACopyWhoseFileIsGoneLosesItsProbe) {
  ProbedLibraries libraries = Found(1);
  ASSERT_TRUE(libraries.SetProbes(&probes_).ok());
  Write(2, 32);
  void* const code = MapCopy(2);
  if (code == MAP_FAILED) GTEST_SKIP() << "the temporary directory is noexec";
  EXPECT_THAT(libraries.ProbeMappedBy(getpid(), &probes_).probed,
              testing::Contains(2u));
  using Entries = std::vector<KnownLibraries::Entry>;
  const auto nobody_has_it = [](Entries*) {};
  EXPECT_THAT(libraries.RemoveUnused(false, &probes_, nobody_has_it), IsEmpty())
      << "the file exists";

  std::filesystem::remove(PathOf(2));
  std::filesystem::remove(PathOf(1));
  const auto is_mapped = [](Entries* copies) { copies->clear(); };
  EXPECT_THAT(libraries.RemoveUnused(false, &probes_, is_mapped), IsEmpty());
  const auto asks_for_it = [this, &libraries](Entries* copies) {
    ASSERT_EQ(copies->size(), 1u) << "those of the start keep their probes";
    EXPECT_THAT(libraries.ProbeMappedBy(getpid(), &probes_).probed,
                testing::Contains(2u));
  };
  EXPECT_THAT(libraries.RemoveUnused(false, &probes_, asks_for_it), IsEmpty());
  EXPECT_THAT(probes_.cookies(), ElementsAre(1, 2));

  EXPECT_THAT(libraries.RemoveUnused(false, &probes_, nobody_has_it), ElementsAre(2));
  EXPECT_THAT(probes_.cookies(), ElementsAre(1));
  EXPECT_EQ(libraries.probed(), 1u);
  EXPECT_NE(libraries.known()->PathOf(2), "") << "events may still name it";
  // If a process has mapped the file by then, it becomes a new copy.
  EXPECT_THAT(libraries.ProbeMappedBy(getpid(), &probes_).probed,
              testing::Contains(3u));
  EXPECT_THAT(probes_.cookies(), ElementsAre(1, 3));
  munmap(code, kMappedBytes);
}

TEST_F(ProbedLibrariesTest, TheNumberOfLaterCopiesIsBounded) {
  LibraryScan none;
  ProbedLibraries libraries(std::move(none), {.most = 1, .most_per_user = 0});
  std::vector<void*> mapped;
  for (int number : {1, 2}) {
    Write(number, 32);
    mapped.push_back(MapCopy(number));
    if (mapped.back() == MAP_FAILED) GTEST_SKIP() << "noexec";
  }
  const ProbedLibraries::Mapped found = libraries.ProbeMappedBy(getpid(), &probes_);
  EXPECT_EQ(found.probed.size(), 1u);
  EXPECT_EQ(found.without_room, 1u);
  EXPECT_EQ(probes_.probes.size(), 1u);
  for (void* code : mapped) munmap(code, kMappedBytes);
}

TEST_F(ProbedLibrariesTest, HavingNoCopiesIsNotAnError) {
  ProbedLibraries libraries((LibraryScan()));
  EXPECT_TRUE(libraries.SetProbes(&probes_).ok());
}

TEST_F(ProbedLibrariesTest, ACopyThatCannotBeProbedDoesNotAffectTheOthers) {
  probes_.on_add = [](uint64_t cookie) {
    return cookie == 2 ? absl::OkStatus() : absl::InternalError("resists");
  };
  ProbedLibraries libraries = Found(3);
  EXPECT_TRUE(libraries.SetProbes(&probes_).ok());
  EXPECT_THAT(probes_.cookies(), ElementsAre(2));
  ASSERT_EQ(libraries.scan().rejected.size(), 2u);
  EXPECT_EQ(libraries.scan().rejected[0].path, PathOf(1));
  EXPECT_EQ(libraries.scan().rejected[0].reason, "resists");
  EXPECT_EQ(libraries.scan().rejected[1].path, PathOf(3));
}

TEST_F(ProbedLibrariesTest, FailingToProbeEveryCopyIsAnError) {
  probes_.on_add = [](uint64_t cookie) {
    return absl::InternalError(absl::StrCat("resists ", cookie));
  };
  for (const int count : {1, 2}) {
    ProbedLibraries libraries = Found(count);
    EXPECT_EQ(libraries.SetProbes(&probes_).message(), "resists 1");
    EXPECT_EQ(libraries.scan().rejected.size(), static_cast<size_t>(count));
  }
}

// The probe may be on a different instruction than intended.
TEST_F(ProbedLibrariesTest, ACopyThatIsWrittenWhileItIsProbedLosesTheProbe) {
  probes_.on_add = [this](uint64_t cookie) {
    if (cookie == 1) Write(1, 64);
    return absl::OkStatus();
  };
  ProbedLibraries libraries = Found(2);
  EXPECT_TRUE(libraries.SetProbes(&probes_).ok());
  EXPECT_THAT(probes_.cookies(), ElementsAre(2));
  EXPECT_THAT(probes_.removed, ElementsAre(1));
  ASSERT_EQ(libraries.scan().rejected.size(), 1u);
  EXPECT_EQ(libraries.scan().rejected[0].path, PathOf(1));
  EXPECT_THAT(libraries.scan().rejected[0].reason, HasSubstr("was changed"));
  // The rejection has been reported, so the watch has nothing to add.
  EXPECT_THAT(RemoveWritten(&libraries), IsEmpty());
  EXPECT_THAT(probes_.removed, ElementsAre(1));
}

TEST_F(ProbedLibrariesTest, AnInstructionThatCannotCarryTheProbeLosesIt) {
  probes_.on_add = [this](uint64_t) {
    std::fstream file(PathOf(1), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(ElfBuilder::kCodeOffset + 16);
    file.put('\xf0');  // a lock prefix
    return absl::OkStatus();
  };
  ProbedLibraries libraries = Found(1);
  EXPECT_FALSE(libraries.SetProbes(&probes_).ok());
  EXPECT_THAT(probes_.removed, ElementsAre(1));
}

// Package managers replace files in this way: the probed file itself was not written.
TEST_F(ProbedLibrariesTest, ACopyThatIsRenamedKeepsItsProbe) {
  probes_.on_add = [this](uint64_t) {
    const std::string old = directory_ / "old";
    std::filesystem::rename(PathOf(1), old);
    EXPECT_EQ(utimensat(AT_FDCWD, old.c_str(), nullptr, 0), 0);
    Write(1, 64);
    return absl::OkStatus();
  };
  ProbedLibraries libraries = Found(1);
  EXPECT_TRUE(libraries.SetProbes(&probes_).ok());
  EXPECT_THAT(probes_.cookies(), ElementsAre(1));
  EXPECT_THAT(RemoveWritten(&libraries), IsEmpty());
}

TEST_F(ProbedLibrariesTest, ACopyThatIsWrittenLaterLosesItsProbeOnce) {
  ProbedLibraries libraries = Found(2);
  ASSERT_TRUE(libraries.SetProbes(&probes_).ok());
  pollfd written = {libraries.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&written, 1, 0), 0);
  Write(2, 32);
  EXPECT_EQ(poll(&written, 1, 0), 1);
  EXPECT_THAT(RemoveWritten(&libraries), ElementsAre(PathOf(2)));
  EXPECT_THAT(probes_.cookies(), ElementsAre(1));
  Write(2, 32);
  EXPECT_THAT(RemoveWritten(&libraries), IsEmpty());
  EXPECT_THAT(probes_.removed, ElementsAre(2));
}

TEST_F(ProbedLibrariesTest, ACopyWithoutAProbeLosesNone) {
  probes_.on_add = [](uint64_t cookie) {
    return cookie == 1 ? absl::InternalError("resists") : absl::OkStatus();
  };
  ProbedLibraries libraries = Found(2);
  ASSERT_TRUE(libraries.SetProbes(&probes_).ok());
  Write(1, 64);
  EXPECT_THAT(RemoveWritten(&libraries), IsEmpty());
  EXPECT_THAT(probes_.removed, IsEmpty());
}

}  // namespace
}  // namespace rocattach
