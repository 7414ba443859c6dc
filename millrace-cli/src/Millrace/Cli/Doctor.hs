-- | What this machine offers to an I/O manager. Looks and tells; changes nothing.
module Millrace.Cli.Doctor
  ( Examination (..),
    Health (..),
    Choice (..),
    examine,
    isHealthy,
    renderText,
    renderAsJson,
  )
where

import Control.Applicative ((<|>))
import Control.Concurrent (setNumCapabilities)
import Control.Exception (IOException, try)
import Control.Monad (forM)
import Data.Either (fromRight)
import GHC.Conc (getNumProcessors)
import Millrace.Cli.Backend
import Millrace.Cli.Failure
import Millrace.Cli.Json
import Millrace.Cli.Processors
import Millrace.Cli.System
import Millrace.Manager
import Text.Read (readMaybe)

-- | What was found.
--
-- @since 0.1.0
data Examination = Examination
  { examinedKernel :: String,
    examinedProcessors :: Int,
    -- | how many processors' time a control group allows; 'Nothing' is all there is
    examinedQuota :: Maybe Rational,
    -- | descriptors that a program may open at first; 'Nothing' is unlimited
    examinedSoftLimit :: Maybe Integer,
    -- | descriptors that it may allow itself; a server does
    examinedHardLimit :: Maybe Integer,
    -- | net.core.somaxconn, connections that may wait to be accepted
    examinedAcceptQueue :: Maybe Integer,
    -- | kernel.io_uring_disabled; kernels before 6.6 do not have it
    examinedIoUringDisabled :: Maybe Integer,
    examinedBackends :: [(Backend, Health)],
    examinedChoice :: Choice
  }
  deriving (Eq, Show)

-- | Whether a backend works here.
--
-- @since 0.1.0
data Health
  = Works
  | -- | and why
    Refused String
  | -- | another one was asked for by name
    NotTried
  deriving (Eq, Show)

-- | What a server would do.
--
-- @since 0.1.0
data Choice
  = -- | and why
    Chosen Backend String
  | -- | it would not start, and why
    NothingChosen String
  deriving (Eq, Show)

-- | Examines this machine, for a server that is started with this @--backend@. Opens and closes an instance of each
-- backend, unless one was asked for by name: then only that one, because some sandboxes kill for trying io_uring. Then
-- starts as many loops as a server would, allowed the descriptors that one allows itself: where one has room, many may not.
--
-- @since 0.1.0
examine :: Maybe Backend -> IO Examination
examine requested = do
  system <- systemName
  processors <- getNumProcessors
  quota <- processorQuota
  (softLimit, hardLimit) <- descriptorLimits
  acceptQueue <- readNumber "/proc/sys/net/core/somaxconn"
  ioUringDisabled <- readNumber "/proc/sys/kernel/io_uring_disabled"
  environment <- fromRight Nothing <$> environmentBackend
  let byName = requested <|> environment
  single <- forM [minBound ..] $ \backend -> (,) backend <$> probeUnless (maybe False (/= backend) byName) backend
  let loops = coresWithin quota processors
  (choice, health) <- raiseDescriptorLimit >> setNumCapabilities loops >> choose requested environment loops single
  pure
    Examination
      { examinedKernel = system,
        examinedProcessors = processors,
        examinedQuota = quota,
        examinedSoftLimit = softLimit,
        examinedHardLimit = hardLimit,
        examinedAcceptQueue = acceptQueue,
        examinedIoUringDisabled = ioUringDisabled,
        examinedBackends = health,
        examinedChoice = choice
      }

probeUnless :: Bool -> Backend -> IO Health
probeUnless True _ = pure NotTried
probeUnless False backend = maybe Works Refused <$> probeBackend backend

-- The manager chooses; this only explains. A probe cannot see that there is room for one loop and not for all of them.
choose :: Maybe Backend -> Maybe Backend -> Int -> [(Backend, Health)] -> IO (Choice, [(Backend, Health)])
choose requested environment loops single = either nothing chosen <$> try (startManager requested)
  where
    nothing failure =
      ( NothingChosen ("cannot " <> failureAttempt failure <> ": " <> failureReason failure),
        map (withoutRoomIf ((== (requested <|> environment)) . Just)) single
      )
    chosen backend = (Chosen backend (reason backend passedOver), passedOver ++ others)
      where
        passedOver = map (withoutRoomIf (const True)) before
        (before, others) = break ((== backend) . fst) single
    withoutRoomIf isMeant (backend, health)
      | health == Works && isMeant backend = (backend, Refused (withoutRoom backend loops))
      | otherwise = (backend, health)
    reason backend before
      | Just backend == requested = "asked for by --backend"
      | Just backend == environment = "asked for by " <> environmentVariable
      | otherwise = case [backendName other | (other, Refused _) <- before] of
        [] -> "the first choice, and it works"
        refused -> unwords refused <> " does not work here"

readNumber :: FilePath -> IO (Maybe Integer)
readNumber path = either (const Nothing :: IOException -> Maybe Integer) readMaybe <$> try (readFile path)

-- | Whether a server could start.
--
-- @since 0.1.0
isHealthy :: Examination -> Bool
isHealthy examination = case examinedChoice examination of
  Chosen _ _ -> True
  NothingChosen _ -> False

-- | For people.
--
-- @since 0.1.0
renderText :: Examination -> String
renderText examination =
  unlines
    ( [ row "millrace" version,
        row "kernel" (examinedKernel examination),
        row "processors" (processorsText examination),
        row "descriptors" (descriptorsText examination),
        row "accept queue" (maybe "unknown" show (examinedAcceptQueue examination)),
        row "io_uring_disabled" (disabledText (examinedIoUringDisabled examination))
      ]
        ++ [row ("backend " <> backendName backend) (healthText health) | (backend, health) <- examinedBackends examination]
        ++ [row "a server would use" (choiceText (examinedChoice examination))]
    )
  where
    row label value = label <> replicate (20 - length label) ' ' <> value

processorsText :: Examination -> String
processorsText examination = show processors <> foldMap allowed (examinedQuota examination)
  where
    allowed quota = ", of which a quota allows " <> show (percent quota) <> " %: " <> cores (coresWithin (Just quota) processors) <> " used"
    cores count = if count == 1 then "one is" else show count <> " are"
    processors = examinedProcessors examination

-- As systemd's CPUQuota= has it: of one processor.
percent :: Rational -> Integer
percent quota = round (100 * quota)

descriptorsText :: Examination -> String
descriptorsText examination
  | soft == hard = limitText soft
  | otherwise = limitText soft <> ", raised to " <> limitText hard <> " by a server"
  where
    soft = examinedSoftLimit examination
    hard = examinedHardLimit examination
    limitText = maybe "unlimited" show

disabledText :: Maybe Integer -> String
disabledText setting = case setting of
  Nothing -> "no such setting (kernels before 6.6)"
  Just 0 -> "0 (everybody may use io_uring)"
  Just 1 -> "1 (only CAP_SYS_ADMIN and the group kernel.io_uring_group may use io_uring)"
  Just 2 -> "2 (nobody may use io_uring)"
  Just other -> show other

healthText :: Health -> String
healthText health = case health of
  Works -> "works"
  Refused reason -> "does not work: " <> reason
  NotTried -> "not tried, another was asked for by name"

choiceText :: Choice -> String
choiceText choice = case choice of
  Chosen backend reason -> backendName backend <> " (" <> reason <> ")"
  NothingChosen reason -> "nothing, it " <> reason

-- | For programs: one object. Its members are documented by an example in the tests.
--
-- @since 0.1.0
renderAsJson :: Examination -> String
renderAsJson examination =
  (<> "\n") . renderJson $
    Object
      [ ("millrace", String version),
        ("kernel", String (examinedKernel examination)),
        ("processors", Number (toInteger (examinedProcessors examination))),
        ("processor_quota_percent", optional (percent <$> examinedQuota examination)),
        ("cores", Number (toInteger (coresWithin (examinedQuota examination) (examinedProcessors examination)))),
        ("descriptors_soft_limit", optional (examinedSoftLimit examination)),
        ("descriptors_hard_limit", optional (examinedHardLimit examination)),
        ("accept_queue", optional (examinedAcceptQueue examination)),
        ("io_uring_disabled", optional (examinedIoUringDisabled examination)),
        ("backends", Array [backendJson backend health | (backend, health) <- examinedBackends examination]),
        ("chosen", chosen),
        ("reason", String reason)
      ]
  where
    optional = maybe Null Number
    (chosen, reason) = case examinedChoice examination of
      Chosen backend why -> (String (backendName backend), why)
      NothingChosen why -> (Null, why)

backendJson :: Backend -> Health -> Json
backendJson backend health = Object [("name", String (backendName backend)), ("works", works), ("reason", reason)]
  where
    (works, reason) = case health of
      Works -> (Bool True, Null)
      Refused why -> (Bool False, String why)
      NotTried -> (Null, String (healthText NotTried))
