// A directory with the files of the kernel driver and of processes.
#ifndef ROCATTACH_TESTS_UNIT_GPUS_FAKE_DRIVER_H_
#define ROCATTACH_TESTS_UNIT_GPUS_FAKE_DRIVER_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/temporary_directory.h"
#include "userspace/gpus/gpu_roots.h"

namespace rocattach::testing_support {

class FakeDriver {
 public:
  FakeDriver() {
    for (const char* folder : {"kfd/topology/nodes", "kfd/proc", "drm", "proc"}) {
      std::filesystem::create_directories(root_ / folder);
    }
    Write("kfd/topology/generation_id", "2\n");
    // A CPU node, which every machine has.
    Write("kfd/topology/nodes/0/gpu_id", "0\n");
    Write("kfd/topology/nodes/0/properties", "cpu_cores_count 8\nsimd_count 0\n");
  }

  GpuRoots roots() const {
    return {root_ / "kfd", root_ / "drm", root_ / "proc", root_ / "module"};
  }

  // Replaces a file at once, as the kernel changes its files: no reader finds it empty.
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / name, next = root_ / "next";
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(next) << text;
    std::filesystem::rename(next, path);
  }
  void Remove(const std::string& name) const {
    std::filesystem::remove_all(root_ / name);
  }
  void Link(const std::string& name, const std::string& target) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(target, path);
  }

  // Adds an MI300X at bus `bus`, or a partition of it.
  void AddGpu(uint32_t node, uint32_t gpu_id, uint32_t bus, uint64_t unique_id,
              uint32_t partition = 0) const {
    const std::string folder = absl::StrCat("kfd/topology/nodes/", node, "/");
    Write(folder + "gpu_id", absl::StrCat(gpu_id, "\n"));
    Write(folder + "properties",
          absl::StrCat("simd_count 1216\ngfx_target_version 90402\ndomain 0\n",
                       "location_id ", bus << 8 | partition << 28, "\nunique_id ",
                       unique_id, "\ndevice_id ", 0x74a1, "\ndrm_render_minor ",
                       127 + node, "\n"));
    Write(folder + "mem_banks/0/properties", "heap_type 1\nsize_in_bytes 1000\n");
  }
  // Adds its DRM device; that of a partition after the first has no data.
  void AddDrm(uint32_t node, const std::string& device) const {
    const std::string folder = absl::StrCat("devices/", device);
    std::filesystem::create_directories(root_ /
                                        absl::StrCat(folder, "/drm/card", node - 1));
    Link(absl::StrCat("drm/renderD", 127 + node, "/device"), root_ / folder);
  }

  void AddProcess(pid_t pid, uint64_t start_ticks, const std::string& comm) const {
    const std::string folder = absl::StrCat("proc/", pid, "/");
    Write(folder + "stat",
          absl::StrCat(pid, " (", comm, ") S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 ",
                       start_ticks, " 0 0\n"));
    Write(folder + "comm", comm + "\n");
    std::filesystem::create_directories(root_ / (folder + "fd"));
    std::filesystem::create_directories(root_ / (folder + "fdinfo"));
  }
  void AddDrmFile(pid_t pid, int fd, uint32_t render_minor, const std::string& pci,
                  uint64_t client, uint64_t vram_kib) const {
    Link(absl::StrCat("proc/", pid, "/fd/", fd),
         absl::StrCat("/dev/dri/renderD", render_minor));
    Write(absl::StrCat("proc/", pid, "/fdinfo/", fd),
          absl::StrCat("pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\n",
                       "drm-client-id:\t", client, "\ndrm-pdev:\t", pci,
                       "\ndrm-memory-vram:\t", vram_kib,
                       " KiB\ndrm-engine-gfx:\t1000 ns\n"));
  }

 private:
  const TemporaryDirectory directory_;
  const std::filesystem::path root_ = directory_.path();
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_GPUS_FAKE_DRIVER_H_
