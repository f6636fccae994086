/* A file system in user space that delivers no file's content. */
#ifndef ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_
#define ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_

/* Serves the mount at `folder`, whose requests come from `device`, in a child that ends
 * with this process: until then a process that reads a file there waits, and cannot be
 * killed. Returns a descriptor of such a file, open for reading; -1 on failure. */
int open_silent_file(int device, const char* folder);

#endif /* ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_ */
