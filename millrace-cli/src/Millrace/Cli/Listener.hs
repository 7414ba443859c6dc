-- | Listening sockets from a host and a port, or from whoever started the program.
module Millrace.Cli.Listener
  ( withInherited,
    withListeners,
  )
where

import Control.Exception (bracket, throwIO, try)
import Data.String (fromString)
import Foreign.C (Errno (..), eACCES, eADDRINUSE, eADDRNOTAVAIL)
import GHC.IO.Exception (IOException (..))
import Millrace.Cli.Failure
import Millrace.Socket
import Network.Wai.Handler.Millrace

-- | Listens on the first address of a host that can be had, and closes the sockets afterwards. Host names are looked
-- up, which may block for as long as the resolver takes. Throws 'Failure', which names the option that chooses the port.
--
-- @since 0.1.0
withListeners :: String -> Settings -> String -> PortNumber -> ([Listener] -> IO a) -> IO a
withListeners option settings host port = bracket open (mapM_ closeListener)
  where
    open = try (openListeners wanted) >>= either (throwIO . cannotListen option host port) pure
    wanted = setHost (fromString host) (setPort (fromIntegral port) (setBacklog backlog settings))
    backlog = 4096 -- the kernel takes the smaller of this and net.core.somaxconn

-- | The sockets that the process was started with; none, usually. Closes them afterwards. Throws 'Failure' if what it was
-- started with cannot be served.
--
-- @since 0.1.0
withInherited :: ([Listener] -> IO a) -> IO a
withInherited = bracket open (mapM_ closeListener)
  where
    open = try inheritedListeners >>= either (throwIO . failure) pure
    failure exception =
      Failure
        { failureAttempt = "listen on the sockets of LISTEN_FDS",
          failureReason = ioe_description (exception :: IOException),
          failureRemedy =
            "Pass stream sockets that listen, as many as LISTEN_FDS says, from descriptor 3 on. In systemd's .socket unit: \
            \ListenStream=, and Accept=no."
        }

-- A lookup that failed has no error number.
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
          "Choose one of its own with --host, or 0.0.0.0 or :: for all of them."
        )
      | otherwise = (description, "Try another --host or " <> option <> ".")

authority :: String -> PortNumber -> String
authority host port
  | ':' `elem` host = "[" <> host <> "]:" <> show port
  | otherwise = host <> ":" <> show port
