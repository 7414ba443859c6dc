-- Must not know: files.

-- | Listening sockets: for a host and a port, or inherited from the program that started this one.
module Millrace.Cli.Serve.Listener
  ( withInherited,
    withListeners,
  )
where

import Control.Exception (bracket, throwIO, try)
import Data.String (fromString)
import Foreign.C (Errno (..), eACCES, eADDRINUSE, eADDRNOTAVAIL)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Base.Address (authority)
import Millrace.Cli.Base.Failure
import Millrace.Socket
import Network.Wai.Handler.Millrace

-- | Listens on the first address of a host on which that is possible, and closes the sockets afterwards. Looks host
-- names up, which may block for as long as the resolver takes. Throws 'Failure', which names the option that chooses
-- the port.
withListeners :: String -> Settings -> String -> PortNumber -> ([Listener] -> IO a) -> IO a
withListeners option settings host port = bracket open (mapM_ closeListener)
  where
    open = try (openListeners wanted) >>= either (throwIO . cannotListen option host port) pure
    wanted = setHost (fromString host) (setPort (fromIntegral port) (setBacklog backlog settings))
    backlog = 4096 -- The kernel takes the smaller of this and net.core.somaxconn.

-- | The listening sockets that the process has inherited, usually none. Closes them afterwards. Throws 'Failure' if
-- they cannot be used.
withInherited :: ([Listener] -> IO a) -> IO a
withInherited = bracket open (mapM_ closeListener)
  where
    open = try inheritedListeners >>= either (throwIO . failure) pure
    failure exception =
      Failure
        { failureAttempt = "listen on the sockets of LISTEN_FDS",
          failureReason = ioe_description (exception :: IOException),
          failureRemedy =
            "Pass as many listening stream sockets as LISTEN_FDS says, from descriptor 3 on. In a .socket \
            \unit of systemd: \
            \ListenStream=, and Accept=no."
        }

-- A failed lookup of a name has no error number.
cannotListen :: String -> String -> PortNumber -> IOException -> Failure
cannotListen option host port exception = case ioe_errno exception of
  Nothing -> unknownHost host (ioe_description exception)
  Just number -> cannotBind option host port (Errno number) (ioe_description exception)

unknownHost :: String -> String -> Failure
unknownHost host reason =
  Failure
    { failureAttempt = "listen on " <> host,
      failureReason = reason,
      failureRemedy = "--host takes an address of this machine, or a name for one: 127.0.0.1, ::1, localhost."
    }

cannotBind :: String -> String -> PortNumber -> Errno -> String -> Failure
cannotBind option host port errno description = Failure ("listen on " <> authority host port) reason remedy
  where
    (reason, remedy)
      | errno == eADDRINUSE =
        ( "the port is in use",
          "Stop the program that listens there, or choose another port with " <> option <> " (0 takes any free one)."
        )
      | errno == eACCES =
        ( "permission denied",
          "Ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one with " <> option <> "."
        )
      | errno == eADDRNOTAVAIL =
        ( "this machine has no such address",
          "Choose an address of this machine with --host, or 0.0.0.0 or :: for all of them."
        )
      | otherwise = (description, "Try another --host or " <> option <> ".")
