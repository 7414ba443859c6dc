-- | The numbers of @process.h@ and of limits, as the C compiler sees them.
module Millrace.Internal.Constants.Processes where

import Data.Int (Int64)

#include <sys/resource.h>
#include "process.h"

groupSame, groupNew, groupSession, groupTerminal :: Int64
groupSame = #{const MRH_SAME_GROUP}
groupNew = #{const MRH_NEW_GROUP}
groupSession = #{const MRH_NEW_SESSION}
groupTerminal = #{const MRH_NEW_TERMINAL}

-- | Added to an error: the process could not join its cgroup.
cgroupError :: Int64
cgroupError = #{const MRH_CGROUP_ERROR}

resourceCpu, resourceMemory, resourceFile, resourceFiles, resourceProcesses, resourceCore, resourceStack :: Int
resourceCpu = #{const RLIMIT_CPU}
resourceMemory = #{const RLIMIT_AS}
resourceFile = #{const RLIMIT_FSIZE}
resourceFiles = #{const RLIMIT_NOFILE}
resourceProcesses = #{const RLIMIT_NPROC}
resourceCore = #{const RLIMIT_CORE}
resourceStack = #{const RLIMIT_STACK}
