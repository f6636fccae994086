#include <elf.h>
#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "tests/unit/simgpu/core.h"

SIMGPU_STANDIN(elf_image_test_kernel) {}

namespace {

TEST(SimgpuElfImage, FindsSymbolsExportedByTheProgramAndItsLibraries) {
  EXPECT_EQ(simgpu_elf_host_symbol("simgpu_kernel_elf_image_test_kernel"),
            reinterpret_cast<void*>(&simgpu_kernel_elf_image_test_kernel));
  EXPECT_NE(simgpu_elf_host_symbol("qsort"), nullptr);
  EXPECT_EQ(simgpu_elf_host_symbol("simgpu_kernel_that_nobody_has"), nullptr);
}

// A code object in its layout in memory: header, PT_DYNAMIC, two symbols.
struct Image {
  Elf64_Ehdr header = {};
  Elf64_Phdr segment = {};
  Elf64_Dyn dynamic[6] = {};
  Elf64_Sym symbols[2] = {};
  uint32_t hash[4] = {1, 2, 0, 0};
  char strings[32] = "\0saxpy.kd";
  alignas(64) char descriptor[64] = {};
};

class SimgpuCodeObject : public testing::Test {
 protected:
  SimgpuCodeObject() : memory_(1 << 16) {
    uintptr_t page = (reinterpret_cast<uintptr_t>(memory_.data()) + 8191) & ~4095ull;
    image_ = new (reinterpret_cast<void*>(page)) Image();
    memcpy(image_->header.e_ident, ELFMAG, SELFMAG);
    image_->header.e_machine = 224;
    image_->header.e_phentsize = sizeof(Elf64_Phdr);
    image_->header.e_phnum = 1;
    image_->header.e_phoff = Offset(&image_->segment);
    image_->segment.p_type = PT_DYNAMIC;
    image_->segment.p_vaddr = Offset(image_->dynamic);
    image_->segment.p_memsz = sizeof(image_->dynamic);
    image_->dynamic[0] = {DT_SYMTAB, {Offset(image_->symbols)}};
    image_->dynamic[1] = {DT_STRTAB, {Offset(image_->strings)}};
    image_->dynamic[2] = {DT_STRSZ, {sizeof(image_->strings)}};
    image_->dynamic[3] = {DT_HASH, {Offset(image_->hash)}};
    image_->symbols[1].st_name = 1;
    image_->symbols[1].st_shndx = 1;
    image_->symbols[1].st_value = Offset(image_->descriptor);
  }
  uint64_t Offset(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(image_);
  }
  bool Find(size_t name_bytes = sizeof(name_)) {
    return simgpu_elf_kernel_name(reinterpret_cast<uintptr_t>(image_), 1 << 15,
                                  reinterpret_cast<uint64_t>(image_->descriptor), name_,
                                  name_bytes);
  }

  std::vector<char> memory_;
  Image* image_;
  char name_[64];
};

TEST_F(SimgpuCodeObject, NamesTheKernelOfADescriptor) {
  ASSERT_TRUE(Find());
  EXPECT_STREQ(name_, "saxpy.kd");
}

TEST_F(SimgpuCodeObject, ForeignMachinesAndMissingSymbolsHaveNoName) {
  image_->symbols[1].st_value++;
  EXPECT_FALSE(Find());
  image_->header.e_machine = EM_X86_64;
  EXPECT_FALSE(Find());
}

TEST_F(SimgpuCodeObject, TablesOutsideOfTheAllocationAreNotRead) {
  EXPECT_FALSE(Find(4));  // the name does not fit
  image_->hash[1] = 1u << 30;
  EXPECT_FALSE(Find());
  image_->hash[1] = 2;
  image_->symbols[1].st_name = 1000;
  EXPECT_FALSE(Find());
  image_->segment.p_vaddr = 1 << 20;
  EXPECT_FALSE(Find());
  image_->header.e_phoff = 1ull << 40;
  EXPECT_FALSE(Find());
}

}  // namespace
