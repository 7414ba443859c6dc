-- | The numbers of inotify, as the C compiler sees them.
module Millrace.Internal.Constants.Watches where

import Data.Bits ((.|.))
import Data.Word (Word32)

#include <sys/inotify.h>

maskCreated, maskRemoved, maskRemovedItself, maskModified, maskWritten :: Word32
maskCreated = #{const IN_CREATE}
maskRemoved = #{const IN_DELETE}
maskRemovedItself = #{const IN_DELETE_SELF}
maskModified = #{const IN_MODIFY}
maskWritten = #{const IN_CLOSE_WRITE}
maskAttributes, maskMovedFrom, maskMovedTo, maskMovedItself :: Word32
maskAttributes = #{const IN_ATTRIB}
maskMovedFrom = #{const IN_MOVED_FROM}
maskMovedTo = #{const IN_MOVED_TO}
maskMovedItself = #{const IN_MOVE_SELF}

-- | Beside the others, or instead of them.
maskDirectory, maskIgnored, maskOverflow :: Word32
maskDirectory = #{const IN_ISDIR}
maskIgnored = #{const IN_IGNORED}
maskOverflow = #{const IN_Q_OVERFLOW}

-- | Flags that refuse some paths: those of files, and symbolic links.
maskOnlyDirectory, maskNoLink :: Word32
maskOnlyDirectory = #{const IN_ONLYDIR}
maskNoLink = #{const IN_DONT_FOLLOW}

-- | The events to watch for, beside those that the same file or directory is watched for already.
watchedEvents :: Word32
watchedEvents =
  maskCreated .|. maskRemoved .|. maskRemovedItself .|. maskModified .|. maskWritten .|. maskAttributes
    .|. maskMovedFrom
    .|. maskMovedTo
    .|. #{const IN_EXCL_UNLINK}
    .|. #{const IN_MASK_ADD}
