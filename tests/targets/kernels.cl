// The kernels of the plain HSA programs. Compiled without any library, so that the build
// needs nothing but clang. standins.c has the same functions for the simulated GPU.

static unsigned long global_x(void) {
  return (unsigned long)__builtin_amdgcn_workgroup_id_x() *
             __builtin_amdgcn_workgroup_size_x() +
         __builtin_amdgcn_workitem_id_x();
}

// Adds 1 to *counter, once per dispatch.
__kernel void increment(__global unsigned long* counter) {
  if (global_x() == 0) {
    __atomic_fetch_add(counter, 1ul, __ATOMIC_RELAXED);
  }
}

// Adds `amount` to *counter, once per dispatch.
__kernel void accumulate(__global unsigned long* counter, unsigned long amount) {
  if (global_x() == 0) {
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
  }
}

// c[i] = a[i] + b[i].
__kernel void vector_add(__global const float* a, __global const float* b,
                         __global float* c, unsigned int count) {
  unsigned long i = global_x();
  if (i < count) c[i] = a[i] + b[i];
}

// Uses LDS and scratch, so that these fields of a dispatch are not zero.
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void reverse_tile(__global unsigned int* data) {
  __local unsigned int tile[64];
  volatile unsigned int spill[32];
  unsigned int local_id = __builtin_amdgcn_workitem_id_x();
  spill[local_id & 31] = data[global_x()];
  tile[63 - (local_id & 63)] = spill[local_id & 31];
  __builtin_amdgcn_s_barrier();
  data[global_x()] = tile[local_id & 63];
}
