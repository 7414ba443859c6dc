-- | Stands in for base's module of this name, which is empty on systems other than Windows. For typechecking only.
module GHC.ConsoleHandler (Handler (..), ConsoleEvent (..), installHandler) where

data Handler = Default | Ignore | Catch (ConsoleEvent -> IO ())

data ConsoleEvent = ControlC | Break | Close | Logoff | Shutdown

installHandler :: Handler -> IO Handler
installHandler = return
