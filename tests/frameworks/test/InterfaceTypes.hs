{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- | Millrace has the names, types and defaults of Warp's interface. This module compiles only if it does.
module InterfaceTypes (spec) where

import Control.Exception (SomeException, evaluate)
import Network.Socket (Socket)
import Network.Wai (Application, Request)
import qualified Network.Wai.Handler.Millrace as Millrace
import qualified Network.Wai.Handler.Warp as Warp
import Test.Hspec

spec :: Spec
spec = describe "Warp's interface" $ do
  it "has setters of the same names and types" $
    length setters `shouldBe` 28
  it "has entry points of the same names and types" $
    evaluate (length entryPoints) `shouldReturn` 7
  it "has the same defaults, where a function returns them" $ do
    Millrace.getPort Millrace.defaultSettings `shouldBe` Warp.getPort Warp.defaultSettings
    Millrace.getHost Millrace.defaultSettings `shouldBe` Warp.getHost Warp.defaultSettings
    Millrace.getGracefulShutdownTimeout Millrace.defaultSettings
      `shouldBe` Warp.getGracefulShutdownTimeout Warp.defaultSettings
    Millrace.getGracefulCloseTimeout1 Millrace.defaultSettings
      `shouldBe` Warp.getGracefulCloseTimeout1 Warp.defaultSettings
    Millrace.getGracefulCloseTimeout2 Millrace.defaultSettings
      `shouldBe` Warp.getGracefulCloseTimeout2 Warp.defaultSettings

type WarpChange = Warp.Settings -> Warp.Settings

type MillraceChange = Millrace.Settings -> Millrace.Settings

-- Two setters with arguments of the same type.
same :: (a -> WarpChange) -> (a -> MillraceChange) -> ()
same _ _ = ()

switch :: WarpChange -> MillraceChange -> ()
switch _ _ = ()

setters :: [()]
setters =
  [ same Warp.setPort Millrace.setPort,
    same Warp.setHost Millrace.setHost,
    same Warp.setOnException Millrace.setOnException,
    same Warp.setOnExceptionResponse Millrace.setOnExceptionResponse,
    same Warp.setOnOpen Millrace.setOnOpen,
    same Warp.setOnClose Millrace.setOnClose,
    same Warp.setTimeout Millrace.setTimeout,
    same Warp.setManager Millrace.setManager,
    same Warp.setFdCacheDuration Millrace.setFdCacheDuration,
    same Warp.setFileInfoCacheDuration Millrace.setFileInfoCacheDuration,
    same Warp.setBeforeMainLoop Millrace.setBeforeMainLoop,
    same Warp.setNoParsePath Millrace.setNoParsePath,
    same Warp.setInstallShutdownHandler Millrace.setInstallShutdownHandler,
    same Warp.setServerName Millrace.setServerName,
    same Warp.setMaximumBodyFlush Millrace.setMaximumBodyFlush,
    same forkWarp forkMillrace,
    same Warp.setSlowlorisSize Millrace.setSlowlorisSize,
    same Warp.setLogger Millrace.setLogger,
    same Warp.setServerPushLogger Millrace.setServerPushLogger,
    same Warp.setGracefulShutdownTimeout Millrace.setGracefulShutdownTimeout,
    same Warp.setGracefulCloseTimeout1 Millrace.setGracefulCloseTimeout1,
    same Warp.setGracefulCloseTimeout2 Millrace.setGracefulCloseTimeout2,
    same Warp.setMaxTotalHeaderLength Millrace.setMaxTotalHeaderLength,
    same Warp.setAltSvc Millrace.setAltSvc,
    switch Warp.setProxyProtocolNone Millrace.setProxyProtocolNone,
    switch Warp.setProxyProtocolRequired Millrace.setProxyProtocolRequired,
    switch Warp.setProxyProtocolOptional Millrace.setProxyProtocolOptional,
    switch Warp.setHTTP2Disabled Millrace.setHTTP2Disabled
  ]

-- A function of rank 2 can be passed to 'same' only inside a newtype.
newtype Fork = Fork (((forall a. IO a -> IO a) -> IO ()) -> IO ())

forkWarp :: Fork -> WarpChange
forkWarp (Fork fork) = Warp.setFork fork

forkMillrace :: Fork -> MillraceChange
forkMillrace (Fork fork) = Millrace.setFork fork

data EntryPoint
  = Running (Int -> Application -> IO ()) (Int -> Application -> IO ())
  | OnSocket (Warp.Settings -> Socket -> Application -> IO ()) (Millrace.Settings -> Socket -> Application -> IO ())
  | With (forall a. IO Application -> (Int -> IO a) -> IO a) (forall a. IO Application -> (Int -> IO a) -> IO a)
  | Free (IO (Int, Socket)) (IO (Int, Socket))
  | Displaying (SomeException -> Bool) (SomeException -> Bool)
  | Pausing (Request -> IO ()) (Request -> IO ())

entryPoints :: [EntryPoint]
entryPoints =
  [ Running Warp.run Millrace.run,
    Running Warp.runEnv Millrace.runEnv,
    OnSocket Warp.runSettingsSocket Millrace.runSettingsSocket,
    With Warp.testWithApplication Millrace.testWithApplication,
    Free Warp.openFreePort Millrace.openFreePort,
    Displaying Warp.defaultShouldDisplayException Millrace.defaultShouldDisplayException,
    Pausing Warp.pauseTimeout Millrace.pauseTimeout
  ]
