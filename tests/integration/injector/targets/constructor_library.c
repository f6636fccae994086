/* A library whose constructor calls a function of the program that loads it. */
extern void constructor_hook(void) __attribute__((weak));

__attribute__((constructor)) static void construct(void) {
  if (constructor_hook) constructor_hook();
}
