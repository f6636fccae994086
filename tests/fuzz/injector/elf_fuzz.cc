// Any bytes as an ELF image, in the form of a file and of a loaded image.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "injector/elf/elf_image.h"

using rocattach::BufferSource;
using rocattach::ElfImage;

namespace {

void Check(const ElfImage& image) {
  for (const char* name : {"hsa_init", "dlopen", "f", "function_1"}) {
    auto found = image.FindFunction(name);
    if (!found.ok()) continue;
    // A function that is found lies in the code of the file, so it has a file offset.
    if (!image.FileOffset(found->vaddr).ok()) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  BufferSource source(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (auto image = ElfImage::Parse(source, ElfImage::Form::kFile); image.ok()) {
    Check(*image);
  }
  if (auto image = ElfImage::Parse(source, ElfImage::Form::kMemory, 0x1000);
      image.ok()) {
    Check(*image);
  }
  return 0;
}
