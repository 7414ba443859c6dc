/*
 * versions.h: the versions of GHC whose run-time system this folder was tested with.
 *
 * The files of this folder read, and sometimes write, memory of the run-time system by its layout. They do so only with
 * the versions listed here. With another version, and with the Cabal flag plain-rts, each file has a plain path that
 * uses only public functions: slower, never wrong.
 *
 * To add a version: add it to the list, build, and run the tests. layout.c compares the offsets at compile time.
 * Comments at each use say what changed between versions.
 */
#ifndef MILLRACE_GHC_VERSIONS_H
#define MILLRACE_GHC_VERSIONS_H

#include <ghcversion.h>

#define MRH_IS_GHC(major, minor, patch) \
    (MIN_VERSION_GLASGOW_HASKELL(major, minor, patch, 0) && !MIN_VERSION_GLASGOW_HASKELL(major, minor, (patch) + 1, 0))

#if !defined MRH_PLAIN_RTS && (MRH_IS_GHC(9, 0, 2) || MRH_IS_GHC(9, 6, 6) || MRH_IS_GHC(9, 10, 3))
#define MRH_LAYOUT_IS_TESTED 1
#else
#define MRH_LAYOUT_IS_TESTED 0
#endif

#endif
