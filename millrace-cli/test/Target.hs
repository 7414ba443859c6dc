{-# LANGUAGE OverloadedStrings #-}

-- | What proxies pass requests on to: targets that misbehave, and those that read paths in their own ways.
module Target
  ( withOneResponse,
    withOneResponseAt,
    withSilentTarget,
    withReaders,
    readers,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Exception (bracket)
import Control.Monad (forever)
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Network.HTTP.Types (urlDecode)
import qualified Network.Socket as Network
import qualified Network.Socket.ByteString as Network

-- | A target that sends this to every client, and then ends the connection. The action gets its port.
withOneResponse :: String -> (String -> IO a) -> IO a
withOneResponse response use = listening (\listener port -> answering listener response (use port))

-- | Such a target on a Unix socket at a path, whose characters are bytes.
withOneResponseAt :: String -> String -> IO a -> IO a
withOneResponseAt path response use =
  bracket (Network.socket Network.AF_UNIX Network.Stream Network.defaultProtocol) Network.close $ \listener -> do
    Network.bind listener (Network.SockAddrUnix path)
    Network.listen listener 64
    answering listener response use

answering :: Network.Socket -> String -> IO a -> IO a
answering listener response use =
  bracket (forkIO (forever (bracket (fst <$> Network.accept listener) Network.close answer))) killThread (const use)
  where
    answer client = Network.recv client 4096 >> Network.sendAll client (Char8.pack response)

-- | A target that takes connections and says nothing. The action gets its port.
withSilentTarget :: (String -> IO a) -> IO a
withSilentTarget use = listening (const use)

-- | A target that answers @secret@ where one of the 'readers' takes the path for @/admin@ or one below, and @open@
-- elsewhere. The action gets its port.
withReaders :: (String -> IO a) -> IO a
withReaders use = listening $ \listener port ->
  bracket
    (forkIO (forever (bracket (fst <$> Network.accept listener) Network.close answer)))
    killThread
    (const (use port))
  where
    answer client = do
      asked <- Network.recv client 4096
      let path = Char8.takeWhile (/= ' ') (Char8.drop 1 (Char8.dropWhile (/= ' ') asked))
          body =
            if any (\(_, parts) -> take 1 (parts path) == ["admin"]) readers then "secret" else "open" :: ByteString
      Network.sendAll
        client
        ( "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
            <> Char8.pack (show (Char8.length body))
            <> "\r\n\r\n"
            <> body
        )

-- | The ways in which programs read a path, and the parts that they find.
readers :: [(String, ByteString -> [ByteString])]
readers =
  [ ("RFC 3986", resolved . map decoded . slashes),
    ("slashes are decoded", resolved . slashes . decoded),
    ("Tomcat", resolved . map (decoded . Char8.takeWhile (/= ';')) . slashes),
    ("parameters are cut when they are decoded", resolved . map (Char8.takeWhile (/= ';')) . slashes . decoded),
    ( "IIS",
      resolved
        . map (Char8.dropWhileEnd (`elem` (" ." :: String)))
        . Char8.splitWith (`elem` ("/\\" :: String))
        . decoded
    ),
    ("decodes twice", resolved . slashes . decoded . decoded),
    ("decodes twice and cuts", resolved . map (Char8.takeWhile (/= ';')) . slashes . decoded . decoded),
    ("a decoded question mark begins the query", resolved . slashes . Char8.takeWhile (/= '?') . decoded),
    ("trims blanks", resolved . slashes . Char8.dropWhileEnd (`elem` (" \t\r\n\x85\xA0" :: String)) . decoded)
  ]
  where
    decoded = urlDecode False
    slashes = Char8.split '/'
    resolved = reverse . foldl step []
    step before part
      | part == ".." = drop 1 before
      | part `elem` ["", "."] = before
      | otherwise = part : before

listening :: (Network.Socket -> String -> IO a) -> IO a
listening use =
  bracket (Network.socket Network.AF_INET Network.Stream Network.defaultProtocol) Network.close $ \listener -> do
    Network.bind listener (Network.SockAddrInet 0 (Network.tupleToHostAddress (127, 0, 0, 1)))
    Network.listen listener 64
    port <- Network.socketPort listener
    use listener (show port)
