-- | The sizes of what the jobs of @work.h@ write, as the C compiler sees them. On all systems that have jobs.
module Millrace.Internal.Constants.Jobs (statusBytes) where

#include "work.h"

-- | The size of an @mrh_status@, which is the output of a job that is done without a helper.
statusBytes :: Int
statusBytes = #{size mrh_status}
