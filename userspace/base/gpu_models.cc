#include "userspace/base/gpu_models.h"

#include "absl/strings/str_format.h"

namespace rocattach {
namespace {

// PCI device IDs, of the GPU itself and of a virtual function of it.
struct Model {
  uint32_t device_id;
  uint32_t virtual_device_id;  // 0: not known
  const char* name;
};
constexpr Model kModels[] = {
    {0x738c, 0, "MI100"},          {0x740f, 0, "MI210"},
    {0x740c, 0, "MI250"},          {0x7408, 0, "MI250X"},
    {0x74a0, 0x74b4, "MI300A_A1"}, {0x74a1, 0x74b5, "MI300X_A1"},
    {0x74a9, 0x74bd, "MI300XHF"},  {0x74a2, 0x74b6, "MI308X"},
    {0x74a8, 0x74bc, "MI308XHF"},  {0x74a5, 0x74b9, "MI325X"},
    {0x75a0, 0x75b0, "MI350"},     {0x75a3, 0x75b3, "MI355"},
    {0x75a2, 0x75b2, "MI358"},     {0x75a8, 0x75b8, "MI350P"},
};

}  // namespace

absl::string_view GpuModelName(uint32_t device_id) {
  if (device_id == 0) return "";
  for (const Model& model : kModels) {
    if (device_id == model.device_id || device_id == model.virtual_device_id) {
      return model.name;
    }
  }
  return "";
}

std::string ArchitectureName(uint32_t target_version) {
  return absl::StrFormat("gfx%d%x%x", target_version / 10'000,
                         target_version / 100 % 100, target_version % 100);
}

}  // namespace rocattach
