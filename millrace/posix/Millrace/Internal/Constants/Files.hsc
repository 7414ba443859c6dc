-- | The numbers of POSIX's and Linux's files, as the C compiler sees them.
module Millrace.Internal.Constants.Files where

import Data.Int (Int64)

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "work.h"
#ifdef __linux__
#include <linux/falloc.h>
#endif

#ifndef O_DIRECT
#define O_DIRECT 0
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif
#ifndef FALLOC_FL_KEEP_SIZE
#define FALLOC_FL_KEEP_SIZE 1
#define FALLOC_FL_PUNCH_HOLE 2
#define FALLOC_FL_ZERO_RANGE 16
#endif

-- | The kinds of files, in a file's mode.
modeKindMask, modeRegular, modeDirectory, modeLink, modeFifo, modeSocket, modeCharacter, modeBlock :: Int64
modeKindMask = #{const S_IFMT}
modeRegular = #{const S_IFREG}
modeDirectory = #{const S_IFDIR}
modeLink = #{const S_IFLNK}
modeFifo = #{const S_IFIFO}
modeSocket = #{const S_IFSOCK}
modeCharacter = #{const S_IFCHR}
modeBlock = #{const S_IFBLK}

-- | The kinds of files, in a directory.
entryRegular, entryDirectory, entryLink, entryFifo, entrySocket, entryCharacter, entryBlock :: Int
entryRegular = #{const DT_REG}
entryDirectory = #{const DT_DIR}
entryLink = #{const DT_LNK}
entryFifo = #{const DT_FIFO}
entrySocket = #{const DT_SOCK}
entryCharacter = #{const DT_CHR}
entryBlock = #{const DT_BLK}

-- | The parts of an @mrh_batch@: where the size of its names is and where they begin, and the size of the head of each
-- of them.
batchNamesSize, batchNames, nameHeadSize :: Int
batchNamesSize = #{offset mrh_batch, names_bytes}
batchNames = #{offset mrh_batch, names}
nameHeadSize = #{size mrh_name_head}

-- | What a job of many steps returns if another one must go on.
moreIsLeft :: Int64
moreIsLeft = #{const MRH_MORE}

-- | Instead of a descriptor: the directory was read to its end and closed.
listedAll :: Int64
listedAll = #{const MRH_LISTED_ALL}

-- | Flags of @renameat2@.
renameNoReplace, renameExchange :: Int64
renameNoReplace = #{const RENAME_NOREPLACE}
renameExchange = #{const RENAME_EXCHANGE}

-- | A time that is to stay as it is.
timeOmit :: Int64
timeOmit = #{const UTIME_OMIT}

-- | Flags of @open@.
openReadOnly, openWriteOnly, openReadWrite, openCreate, openExclusive, openTruncate :: Int64
openReadOnly = #{const O_RDONLY}
openWriteOnly = #{const O_WRONLY}
openReadWrite = #{const O_RDWR}
openCreate = #{const O_CREAT}
openExclusive = #{const O_EXCL}
openTruncate = #{const O_TRUNC}
openAppend, openDirect, openSynced, openNoFollow :: Int64
openAppend = #{const O_APPEND}
openDirect = #{const O_DIRECT}
openSynced = #{const O_DSYNC}
openNoFollow = #{const O_NOFOLLOW}

-- | Modes of @fallocate@.
allocateKeepSize, allocatePunchHole, allocateZeroes :: Int64
allocateKeepSize = #{const FALLOC_FL_KEEP_SIZE}
allocatePunchHole = #{const FALLOC_FL_PUNCH_HOLE}
allocateZeroes = #{const FALLOC_FL_ZERO_RANGE}
