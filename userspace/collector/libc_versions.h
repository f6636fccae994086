// Pins what we import from libc to symbol versions that every glibc since 2.17 has.
//
// glibc 2.34 moved libdl and libpthread into libc and gave their functions a new
// default version, which older systems lack; the old version stays in every libc.so.6.
// Included by every source file through the compiler's -include, so that none is
// forgotten.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_LIBC_VERSIONS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_LIBC_VERSIONS_H_

#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_key_create, pthread_key_create@GLIBC_2.2.5");
__asm__(".symver pthread_getspecific, pthread_getspecific@GLIBC_2.2.5");
__asm__(".symver pthread_setspecific, pthread_setspecific@GLIBC_2.2.5");
__asm__(".symver pthread_attr_setstacksize, pthread_attr_setstacksize@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");
#endif

#endif  // ROCATTACH_USERSPACE_COLLECTOR_LIBC_VERSIONS_H_
