-- | The numbers of @getaddrinfo@ and @getnameinfo@, and of @names.h@, as the C compiler sees them.
module Millrace.Internal.Constants.Names where

#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "names.h"

#ifndef EAI_NODATA
#define EAI_NODATA EAI_NONAME
#endif
#ifndef EAI_ADDRFAMILY
#define EAI_ADDRFAMILY EAI_NONAME
#endif

-- | Beyond this are getaddrinfo's errors.
nameErrorBase :: Int
nameErrorBase = #{const MRH_NAME_ERROR}

-- | Its records.
recordSize, recordAddress :: Int
recordSize = #{const 24 + sizeof(struct sockaddr_storage)}
recordAddress = 24

errorNoName, errorNoData, errorAddressFamily, errorService, errorAgain :: Int
errorNoName = abs (#{const EAI_NONAME})
errorNoData = abs (#{const EAI_NODATA})
errorAddressFamily = abs (#{const EAI_ADDRFAMILY})
errorService = abs (#{const EAI_SERVICE})
errorAgain = abs (#{const EAI_AGAIN})
errorFail, errorFamily, errorType, errorFlags :: Int
errorFail = abs (#{const EAI_FAIL})
errorFamily = abs (#{const EAI_FAMILY})
errorType = abs (#{const EAI_SOCKTYPE})
errorFlags = abs (#{const EAI_BADFLAGS})

flagAddressConfigured, flagAll4, flagCanonicalName, flagNumericHost, flagNumericService, flagPassive, flagMapped :: Int
flagAddressConfigured = #{const AI_ADDRCONFIG}
flagAll4 = #{const AI_ALL}
flagCanonicalName = #{const AI_CANONNAME}
flagNumericHost = #{const AI_NUMERICHOST}
flagNumericService = #{const AI_NUMERICSERV}
flagPassive = #{const AI_PASSIVE}
flagMapped = #{const AI_V4MAPPED}

flagNameDatagram, flagNameRequired, flagNameLocal, flagNameNumericHost, flagNameNumericService :: Int
flagNameDatagram = #{const NI_DGRAM}
flagNameRequired = #{const NI_NAMEREQD}
flagNameLocal = #{const NI_NOFQDN}
flagNameNumericHost = #{const NI_NUMERICHOST}
flagNameNumericService = #{const NI_NUMERICSERV}
