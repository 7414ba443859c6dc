/* HsFFI.h - what the C code of millrace-foreign uses of GHC's header. memory.c defines the functions. */
#ifndef MEMORY_HSFFI_H
#define MEMORY_HSFFI_H

typedef void *HsStablePtr;

void hs_free_stable_ptr(HsStablePtr pointer);
void hs_try_putmvar(int capability, HsStablePtr mvar);

#endif
