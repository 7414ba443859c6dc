/*
 * versions.h: the versions of GHC whose run-time system this folder was tested with.
 *
 * The files of this folder read, and sometimes write, memory of the run-time system by its layout. They do so only with
 * the versions listed here. With another version, and with the Cabal flag plain-rts, each file has a plain path that
 * uses only public functions: slower, never wrong.
 *
 * The list names minor series, because the layout does not change within one: releases of a series share the interface
 * of their libraries, and compiled code contains these offsets. Tested were 9.0.2, 9.6.6 and 9.10.3.
 *
 * To add a series: add it to the list, build, and run the tests. layout.c compares the offsets at compile time, and
 * again on each capability at start-up. Comments at each use say what changed between versions.
 */
#ifndef MILLRACE_GHC_VERSIONS_H
#define MILLRACE_GHC_VERSIONS_H

#include <ghcversion.h>

#define MRH_IS_GHC(major, minor) \
    (MIN_VERSION_GLASGOW_HASKELL(major, minor, 0, 0) && !MIN_VERSION_GLASGOW_HASKELL(major, (minor) + 1, 0, 0))

#if !defined MRH_PLAIN_RTS && (MRH_IS_GHC(9, 0) || MRH_IS_GHC(9, 6) || MRH_IS_GHC(9, 10))
#define MRH_LAYOUT_IS_TESTED 1
#else
#define MRH_LAYOUT_IS_TESTED 0
#endif

#endif
