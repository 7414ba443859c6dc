-- Must not know: sockets.

-- | Every foreign import of this package, and the constants of @tls.h@.
module Millrace.Tls.Internal.TlsCalls
  ( -- * Steps
    TlsStep,
    Status (..),
    stepPlain,
    stepOut,
    stepStatus,
    stepHasMore,
    stepHasInput,

    -- * Connections
    ConnectionState,
    c_connectionNew,
    c_connectionExpect,
    c_connectionClose,
    c_connectionFree,
    c_handshake,
    c_nameAsked,
    c_use,
    NameAnswer (..),
    c_answer,
    c_receive,
    c_receiveInPlace,
    c_hasInput,
    c_holdsBack,
    c_unread,
    c_send,
    c_sendLast,
    c_sendInPlace,
    c_sendLater,
    c_sendFile,
    c_collect,
    c_putBack,
    c_end,
    c_recordBufferAlloc,
    c_recordBufferFree,
    recordBufferSize,
    c_isOver,
    c_version,
    c_cipher,
    c_group,
    c_isResumed,
    c_protocol,
    c_serverName,
    c_peerCertificate,

    -- * Failures
    Failure (..),
    FailureProblem (..),
    readFailure,
    c_verifyWords,
    lastError,

    -- * Contexts
    ContextState,
    c_contextNew,
    c_contextRelease,
    c_contextVersions,
    c_contextCiphers,
    c_contextGroups,
    c_contextProtocols,
    c_contextVerify,
    c_contextTrustSystem,
    c_contextTrust,
    c_contextRevoke,
    c_contextAddGroup,
    c_contextUse,
    c_contextAddName,
    c_contextRefuseUnknownNames,
    c_contextUseTickets,
    c_contextRefuseTickets,
    c_contextAskIdentities,
    c_contextResume,
    c_contextStaple,
    c_contextLogKeys,
    TicketsState,
    c_ticketsNew,
    c_ticketsRelease,
    c_ticketsSetKeys,
    ticketKeySize,
    roleClient,
    roleServer,
    peerNotAsked,
    peerAsked,
    peerRequired,
    peerUnverified,
    version12,
    version13,

    -- * Identities and certificates
    IdentityState,
    IdentityResult (..),
    c_identityNew,
    c_identityFree,
    c_identityCertificate,
    c_identityKind,
    X509,
    c_certificateParse,
    c_certificateFree,
    c_certificateRead,
    c_certificateBegins,
    c_certificateEnds,
    fieldDer,
    fieldSubject,
    fieldIssuer,
    fieldSerial,
    fieldDnsNames,
    fieldAddresses,
  )
where

import Data.Bits (shiftR, testBit, (.&.))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CBool (..), CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (FunPtr, Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)

#include "tls.h"
#include <openssl/ssl.h>

-- | The result of one call: see @tls_step@.
newtype TlsStep = TlsStep Int64

-- | In the order of @tls_status@.
data Status = Done | WantsInput | Ended | Failed | Closed | BadFile | SendingEnded | WantsIdentity
  deriving (Eq, Show, Enum, Bounded)

stepPlain, stepOut :: TlsStep -> Int
stepPlain (TlsStep step) = fromIntegral (step .&. 0xfffffff)
stepOut (TlsStep step) = fromIntegral ((step `shiftR` 28) .&. 0xfffffff)

stepStatus :: TlsStep -> Status
stepStatus (TlsStep step) = toEnum (fromIntegral ((step `shiftR` 56) .&. 0xf))

stepHasMore, stepHasInput :: TlsStep -> Bool
stepHasMore (TlsStep step) = testBit step 60
stepHasInput (TlsStep step) = testBit step 61

-- | @tls_connection@
data ConnectionState

-- | @tls_context@
data ContextState

-- | @tls_identity@
data IdentityState

-- | @tls_certificate@
data X509

foreign import ccall unsafe "tls_connection_new" c_connectionNew :: Ptr ContextState -> IO (Ptr ConnectionState)

foreign import ccall unsafe "tls_connection_expect" c_connectionExpect :: Ptr ConnectionState -> CString -> IO CBool

foreign import ccall unsafe "tls_connection_close" c_connectionClose :: Ptr ConnectionState -> IO ()

foreign import ccall unsafe "&tls_connection_free" c_connectionFree :: FunPtr (Ptr ConnectionState -> IO ())

foreign import ccall unsafe "tls_connection_handshake"
  c_handshake :: Ptr ConnectionState -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_receive"
  c_receive :: Ptr ConnectionState -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_receive_in_place"
  c_receiveInPlace :: Ptr ConnectionState -> Ptr Word8 -> CSize -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_has_input" c_hasInput :: Ptr ConnectionState -> IO CBool

foreign import ccall unsafe "tls_connection_unread" c_unread :: Ptr ConnectionState -> Ptr Word8 -> CSize -> IO ()

foreign import ccall unsafe "tls_connection_send"
  c_send :: Ptr ConnectionState -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_send_last"
  c_sendLast :: Ptr ConnectionState -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_record_buffer_alloc" c_recordBufferAlloc :: IO (Ptr Word8)

foreign import ccall unsafe "tls_record_buffer_free" c_recordBufferFree :: Ptr Word8 -> IO ()

-- | The size of the memory that 'c_recordBufferAlloc' returns.
recordBufferSize :: Int
recordBufferSize = #{const TLS_RECORD_BUFFER_SIZE}

foreign import ccall unsafe "tls_connection_send_in_place"
  c_sendInPlace :: Ptr ConnectionState -> Ptr Word8 -> CSize -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_send_later"
  c_sendLater :: Ptr ConnectionState -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_send_file"
  c_sendFile :: Ptr ConnectionState -> CInt -> Int64 -> CSize -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_collect"
  c_collect :: Ptr ConnectionState -> Ptr Word8 -> CSize -> IO TlsStep

foreign import ccall unsafe "tls_connection_put_back" c_putBack :: Ptr ConnectionState -> Ptr Word8 -> CSize -> IO ()

foreign import ccall unsafe "tls_connection_end" c_end :: Ptr ConnectionState -> IO ()

foreign import ccall unsafe "tls_connection_is_over" c_isOver :: Ptr ConnectionState -> IO CBool

foreign import ccall unsafe "tls_connection_version" c_version :: Ptr ConnectionState -> IO CInt

foreign import ccall unsafe "tls_connection_cipher" c_cipher :: Ptr ConnectionState -> IO CString

foreign import ccall unsafe "tls_connection_group" c_group :: Ptr ConnectionState -> IO CString

foreign import ccall unsafe "tls_connection_is_resumed" c_isResumed :: Ptr ConnectionState -> IO CBool

foreign import ccall unsafe "tls_connection_protocol" c_protocol :: Ptr ConnectionState -> Ptr (Ptr Word8) -> IO CSize

foreign import ccall unsafe "tls_connection_server_name" c_serverName :: Ptr ConnectionState -> IO CString

foreign import ccall unsafe "tls_connection_peer_certificate" c_peerCertificate :: Ptr ConnectionState -> IO (Ptr X509)

foreign import ccall unsafe "tls_connection_failure" c_failure :: Ptr ConnectionState -> IO (Ptr Failure)

foreign import ccall unsafe "tls_verify_words" c_verifyWords :: CInt -> IO CString

foreign import ccall unsafe "tls_last_error" c_lastError :: Ptr Word8 -> CSize -> IO CSize

foreign import ccall unsafe "tls_context_new" c_contextNew :: CInt -> IO (Ptr ContextState)

foreign import ccall unsafe "&tls_context_release" c_contextRelease :: FunPtr (Ptr ContextState -> IO ())

foreign import ccall unsafe "tls_context_versions" c_contextVersions :: Ptr ContextState -> CInt -> CInt -> IO CBool

foreign import ccall unsafe "tls_context_ciphers" c_contextCiphers :: Ptr ContextState -> CString -> CString -> IO CBool

foreign import ccall unsafe "tls_context_groups" c_contextGroups :: Ptr ContextState -> CString -> IO CBool

foreign import ccall unsafe "tls_context_protocols"
  c_contextProtocols :: Ptr ContextState -> Ptr Word8 -> CSize -> IO CBool

foreign import ccall unsafe "tls_context_verify" c_contextVerify :: Ptr ContextState -> CInt -> IO CBool

-- Safe, because the first call in a process parses a file, and so may later ones.
foreign import ccall safe "tls_context_trust_system" c_contextTrustSystem :: Ptr ContextState -> IO CBool

foreign import ccall safe "tls_context_trust" c_contextTrust :: Ptr ContextState -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall safe "tls_context_revoke" c_contextRevoke :: Ptr ContextState -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall unsafe "tls_context_add_group" c_contextAddGroup :: Ptr ContextState -> IO CInt

foreign import ccall unsafe "tls_context_use" c_contextUse :: Ptr ContextState -> CInt -> Ptr IdentityState -> IO CBool

foreign import ccall unsafe "tls_context_add_name" c_contextAddName :: Ptr ContextState -> CString -> CInt -> IO CBool

foreign import ccall unsafe "tls_context_refuse_unknown_names" c_contextRefuseUnknownNames :: Ptr ContextState -> IO ()

-- | @tls_tickets@
data TicketsState

foreign import ccall unsafe "tls_tickets_new" c_ticketsNew :: IO (Ptr TicketsState)

foreign import ccall unsafe "&tls_tickets_release" c_ticketsRelease :: FunPtr (Ptr TicketsState -> IO ())

foreign import ccall unsafe "tls_tickets_set_keys"
  c_ticketsSetKeys :: Ptr TicketsState -> Ptr Word8 -> CSize -> IO CBool

foreign import ccall unsafe "tls_context_use_tickets"
  c_contextUseTickets :: Ptr ContextState -> Ptr TicketsState -> IO ()

foreign import ccall unsafe "tls_context_refuse_tickets" c_contextRefuseTickets :: Ptr ContextState -> IO ()

foreign import ccall unsafe "tls_connection_holds_back" c_holdsBack :: Ptr ConnectionState -> IO CBool

foreign import ccall unsafe "tls_context_ask_identities" c_contextAskIdentities :: Ptr ContextState -> IO ()

foreign import ccall unsafe "tls_connection_name_asked" c_nameAsked :: Ptr ConnectionState -> IO CString

foreign import ccall unsafe "tls_connection_use" c_use :: Ptr ConnectionState -> Ptr IdentityState -> IO CBool

-- | The answer for a connection that waits for an identity.
data NameAnswer = NameServed | NameUnknown | NameFailed
  deriving (Eq, Show, Enum, Bounded)

foreign import ccall unsafe "tls_connection_answer" c_answerCode :: Ptr ConnectionState -> CInt -> IO ()

c_answer :: NameAnswer -> Ptr ConnectionState -> IO ()
c_answer answer state = c_answerCode state (fromIntegral (fromEnum answer))

foreign import ccall unsafe "tls_context_resume" c_contextResume :: Ptr ContextState -> IO CBool

foreign import ccall unsafe "tls_context_staple"
  c_contextStaple :: Ptr ContextState -> Ptr IdentityState -> Ptr Word8 -> CSize -> IO CBool

foreign import ccall unsafe "tls_context_log_keys" c_contextLogKeys :: Ptr ContextState -> CString -> IO CBool

foreign import ccall unsafe "tls_identity_new"
  c_identityNew :: Ptr (Ptr IdentityState) -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO CInt

foreign import ccall unsafe "&tls_identity_free" c_identityFree :: FunPtr (Ptr IdentityState -> IO ())

foreign import ccall unsafe "tls_identity_certificate" c_identityCertificate :: Ptr IdentityState -> IO (Ptr X509)

foreign import ccall unsafe "tls_identity_kind" c_identityKind :: Ptr IdentityState -> IO CInt

foreign import ccall unsafe "tls_certificate_parse" c_certificateParse :: Ptr Word8 -> CSize -> IO (Ptr X509)

foreign import ccall unsafe "tls_certificate_free" c_certificateFree :: Ptr X509 -> IO ()

foreign import ccall unsafe "tls_certificate_read"
  c_certificateRead :: Ptr X509 -> CInt -> Ptr Word8 -> CSize -> IO CSize

foreign import ccall unsafe "tls_certificate_begins" c_certificateBegins :: Ptr X509 -> Ptr Int64 -> IO CBool

foreign import ccall unsafe "tls_certificate_ends" c_certificateEnds :: Ptr X509 -> Ptr Int64 -> IO CBool

-- | The size of a key for session tickets, in bytes.
ticketKeySize :: Int
ticketKeySize = #{const TLS_TICKET_KEY_SIZE}

roleClient, roleServer, peerNotAsked, peerAsked, peerRequired, peerUnverified, version12, version13 :: CInt
roleClient = #{const TLS_CLIENT}
roleServer = #{const TLS_SERVER}
peerNotAsked = #{const TLS_PEER_NOT_ASKED}
peerAsked = #{const TLS_PEER_ASKED}
peerRequired = #{const TLS_PEER_REQUIRED}
peerUnverified = #{const TLS_PEER_UNVERIFIED}
version12 = #{const TLS1_2_VERSION}
version13 = #{const TLS1_3_VERSION}

fieldDer, fieldSubject, fieldIssuer, fieldSerial, fieldDnsNames, fieldAddresses :: CInt
fieldDer = #{const TLS_FIELD_DER}
fieldSubject = #{const TLS_FIELD_SUBJECT}
fieldIssuer = #{const TLS_FIELD_ISSUER}
fieldSerial = #{const TLS_FIELD_SERIAL}
fieldDnsNames = #{const TLS_FIELD_DNS_NAMES}
fieldAddresses = #{const TLS_FIELD_ADDRESSES}

-- | In the order of @tls_identity_result@.
data IdentityResult
  = IdentityOk
  | IdentityNoCertificate
  | IdentityBadCertificate
  | IdentityNoKey
  | IdentityNeedsPassword
  | IdentityBadKey
  | IdentityMismatch
  | IdentityNoMemory
  deriving (Eq, Show, Enum, Bounded)

-- | In the order of @tls_problem@.
data FailureProblem
  = ProblemNone
  | ProblemAlert
  | ProblemCertificate
  | ProblemNoCertificate
  | ProblemNotTls
  | ProblemPlainHttp
  | ProblemNoVersion
  | ProblemNoCipher
  | ProblemNoProtocol
  | ProblemUnknownName
  | ProblemViolation
  | ProblemFlood
  | ProblemNoMemory
  | ProblemInternal
  deriving (Eq, Show, Enum, Bounded)

-- | @tls_failure@. The certificate is valid only as long as the connection is not closed.
data Failure = Failure
  { failureProblem :: !FailureProblem,
    failureAlertSent :: !(Maybe Word8),
    failureAlertReceived :: !(Maybe Word8),
    failureVerifyResult :: !CInt,
    failureDepth :: !Int,
    failureCertificate :: !(Ptr X509),
    failureDetail :: !ByteString
  }

-- | Why a connection has failed. Nothing if it has not, or if there was no memory to store the reason.
readFailure :: Ptr ConnectionState -> IO (Maybe Failure)
readFailure state = do
  failure <- c_failure state
  if failure == nullPtr
    then return Nothing
    else do
      problem <- #{peek tls_failure, problem} failure :: IO CInt
      sent <- #{peek tls_failure, alert_sent} failure
      received <- #{peek tls_failure, alert_received} failure
      result <- #{peek tls_failure, verify_result} failure
      depth <- #{peek tls_failure, depth} failure :: IO CInt
      certificate <- #{peek tls_failure, certificate} failure
      detail <- Char8.packCString (failure `plusPtr` #{offset tls_failure, detail})
      return . Just $
        Failure
          (toEnum (fromIntegral problem))
          (alert sent)
          (alert received)
          result
          (fromIntegral depth)
          certificate
          detail
  where
    alert :: CInt -> Maybe Word8
    alert number = if number < 0 then Nothing else Just (fromIntegral number)

-- | OpenSSL's text for its latest error in this OS thread. Call it at once: a green thread may move to another OS
-- thread.
lastError :: IO String
lastError = allocaBytes capacity $ \memory -> do
  size <- c_lastError memory (fromIntegral capacity)
  Char8.unpack <$> Char8.packCStringLen (castPtr memory, fromIntegral size)
  where
    capacity = 200
