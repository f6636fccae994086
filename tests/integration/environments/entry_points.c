// make_dispatches for Java and Node. Both interfaces are stable: the parts that are
// used are declared here, so that their headers need not be installed.
#include <stddef.h>

#include "tests/integration/environments/dispatches.h"

// Java: `static native int make()` of a class Dispatches. JNI passes an environment and
// the class.
int Java_Dispatches_make(void* environment, void* class) {
  (void)environment;
  (void)class;
  return make_dispatches();
}

// Node-API, version 1. Node exports these functions.
typedef void* (*callback)(void* environment, void* info);
int napi_create_int32(void* environment, int value, void** result)
    __attribute__((weak));
int napi_create_function(void* environment, const char* name, size_t length,
                         callback function, void* data, void** result)
    __attribute__((weak));

static void* make(void* environment, void* info) {
  (void)info;
  void* result = NULL;
  napi_create_int32(environment, make_dispatches(), &result);
  return result;
}

// The function itself is what the addon exports.
void* napi_register_module_v1(void* environment, void* exports) {
  void* function = exports;
  napi_create_function(environment, "make", 4, make, NULL, &function);
  return function;
}
