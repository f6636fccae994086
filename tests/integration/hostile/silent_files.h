/* A file system in user space that delivers no file's content. */
#ifndef ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_
#define ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_

/* Serves the mount at `folder`, whose requests come from `device`, in a child that ends
 * with this process: whoever reads a file there waits until then, and cannot be killed.
 * Returns a file of it, open for reading; -1 if that fails. */
int open_silent_file(int device, const char* folder);

#endif /* ROCATTACH_TESTS_INTEGRATION_HOSTILE_SILENT_FILES_H_ */
