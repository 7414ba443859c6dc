/*
 * versions.h: the versions of GHC whose run-time system this folder knows.
 *
 * The files of this folder read, and sometimes write, memory of the run-time system by its layout. They do so only with
 * the versions admitted here. With another version, and with the Cabal flag plain-rts, each file has a plain path that
 * uses only public functions: slower, never wrong.
 *
 * The layout does not change within a minor series: releases of a series share the interface of their libraries, and
 * compiled code contains these offsets. The tests ran with 9.0.2, 9.6.6 and 9.10.3. For 9.2, 9.4, 9.8, 9.12 and 9.14
 * scripts/lint/layout has compared this folder with GHC's sources, and no test has run.
 *
 * To admit a series: run scripts/lint/layout with its sources, and the tests. layout.c compares the offsets at compile
 * time, and again on each capability at start-up. Comments at each use say what changed between versions.
 */
#ifndef MILLRACE_GHC_VERSIONS_H
#define MILLRACE_GHC_VERSIONS_H

#include <ghcversion.h>

#if !defined MRH_PLAIN_RTS && MIN_VERSION_GLASGOW_HASKELL(9, 0, 0, 0) && !MIN_VERSION_GLASGOW_HASKELL(9, 15, 0, 0)
#define MRH_LAYOUT_IS_KNOWN 1
#else
#define MRH_LAYOUT_IS_KNOWN 0
#endif

#endif
