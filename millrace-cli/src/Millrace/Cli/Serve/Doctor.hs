-- Must not know: servers.

-- | Examines and reports what this machine offers to an I/O manager. Changes nothing.
module Millrace.Cli.Serve.Doctor
  ( Examination (..),
    Health (..),
    BackendChoice (..),
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
import Millrace.Cli.Base.Backend
import Millrace.Cli.Base.Failure
import Millrace.Cli.Base.Json
import Millrace.Cli.Base.System
import Millrace.Cli.Serve.Http3 (http3Libraries)
import Millrace.Cli.Serve.Processors
import Millrace.Manager
import Text.Read (readMaybe)

-- | The result of an examination.
data Examination = Examination
  { examinedKernel :: String,
    examinedProcessors :: Int,
    -- | The CPU quota of the control group, in processors. 'Nothing': no quota.
    examinedQuota :: Maybe Rational,
    -- | The number of descriptors that a program may open at first. 'Nothing': no limit.
    examinedSoftLimit :: Maybe Integer,
    -- | The number to which it may raise that limit, as a server does.
    examinedHardLimit :: Maybe Integer,
    -- | net.core.somaxconn: the number of connections that may wait to be accepted.
    examinedAcceptQueue :: Maybe Integer,
    -- | kernel.io_uring_disabled. Kernels before 6.6 do not have it.
    examinedIoUringDisabled :: Maybe Integer,
    -- | The libraries that speak HTTP\/3, or why this program does not.
    examinedHttp3 :: Either String String,
    examinedBackends :: [(Backend, Health)],
    examinedChoice :: BackendChoice,
    -- | The threads that wait for what no interface of the system does without one.
    examinedHelpers :: HelperCounts
  }
  deriving (Eq, Show)

-- | Whether a backend works here.
data Health
  = Works
  | -- | With the reason.
    Refused String
  | -- | Another backend was chosen by name.
    NotTried
  deriving (Eq, Show)

-- | The backend that a server would use.
data BackendChoice
  = -- | With the reason.
    Chosen Backend String
  | -- | The server would not start, for this reason.
    NothingChosen String
  deriving (Eq, Show)

-- | Examines this machine, for a server that is started with this @--backend@. Opens and closes an instance of each
-- backend. If a backend was chosen by name, it tries only that one, because some sandboxes kill a program that tries
-- io_uring. Then it starts as many loops as a server would, with as many descriptors: memory or descriptors may
-- suffice for one loop but not for all of them.
examine :: Maybe Backend -> IO Examination
examine requested = do
  system <- systemName
  processors <- getNumProcessors
  quota <- processorQuota
  (softLimit, hardLimit) <- descriptorLimits
  acceptQueue <- readNumber "/proc/sys/net/core/somaxconn"
  ioUringDisabled <- readNumber "/proc/sys/kernel/io_uring_disabled"
  environment <- fromRight Nothing <$> environmentBackend
  http3 <- either (pure . Left . failureReason) (fmap Right) http3Libraries
  let byName = requested <|> environment
  single <- forM [minBound ..] $ \backend ->
    (,) backend <$> (if maybe True (== backend) byName then probe backend else pure NotTried)
  let loops = coresWithin quota processors
  (choice, health) <- raiseDescriptorLimit >> setNumCapabilities loops >> choose requested environment loops single
  helpers <- helperCounts
  pure
    Examination
      { examinedKernel = system,
        examinedProcessors = processors,
        examinedQuota = quota,
        examinedSoftLimit = softLimit,
        examinedHardLimit = hardLimit,
        examinedAcceptQueue = acceptQueue,
        examinedIoUringDisabled = ioUringDisabled,
        examinedHttp3 = http3,
        examinedBackends = health,
        examinedChoice = choice,
        examinedHelpers = helpers
      }

probe :: Backend -> IO Health
probe backend = maybe Works Refused <$> probeBackend backend

-- The manager makes the choice; this explains it. A probe cannot see whether all loops can start.
choose :: Maybe Backend -> Maybe Backend -> Int -> [(Backend, Health)] -> IO (BackendChoice, [(Backend, Health)])
choose requested environment loops single = either nothing chosen <$> try (startManager requested)
  where
    nothing failure =
      ( NothingChosen ("cannot " <> failureAttempt failure <> ": " <> failureReason failure),
        map (refusedIf ((== (requested <|> environment)) . Just)) single
      )
    chosen backend = (Chosen backend (reason backend passedOver), passedOver ++ others)
      where
        passedOver = map (refusedIf (const True)) before
        (before, others) = break ((== backend) . fst) single
    refusedIf isMeant (backend, health)
      | health == Works && isMeant backend = (backend, Refused (tooManyLoops backend loops))
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
isHealthy :: Examination -> Bool
isHealthy examination = case examinedChoice examination of
  Chosen _ _ -> True
  NothingChosen _ -> False

-- | The result as text for a person.
renderText :: Examination -> String
renderText examination =
  unlines
    ( [ row "millrace" version,
        row "kernel" (examinedKernel examination),
        row "processors" (processorsText examination),
        row "descriptors" (descriptorsText examination),
        row "accept queue" (maybe "unknown" show (examinedAcceptQueue examination)),
        row "io_uring_disabled" (disabledText (examinedIoUringDisabled examination)),
        row "HTTP/3" (either ("no: " <>) id (examinedHttp3 examination))
      ]
        ++ [ row ("backend " <> backendName backend) (healthText health)
             | (backend, health) <-
                 examinedBackends examination
           ]
        ++ [row "a server would use" (choiceText (examinedChoice examination))]
        ++ [ row ("  for " <> what) (interface <> ": " <> why)
             | (what, interface, why) <-
                 interfaces (examinedChoice examination)
           ]
        ++ [row "helper threads" (helpersText (examinedHelpers examination))]
    )
  where
    row label value = label <> replicate (20 - length label) ' ' <> value

-- What a backend does by which interface of the system, and why.
interfaces :: BackendChoice -> [(String, String, String)]
interfaces (NothingChosen _) = []
interfaces (Chosen backend _) =
  [("sockets", sockets, whySockets), ("files", files, whyFiles)]
    ++ [byHelpers "opening" "it may wait for the disk, and has no operation" | backend /= Iocp]
    ++ [byHelpers "directories" "they may wait for the disk, and have no operations" | backend /= Iocp]
    ++ [byHelpers "programs" "the system returns only when the program has begun" | backend /= Iocp]
    ++ [byHelpers "names" "the system looks names up in no other way"]
  where
    (sockets, whySockets) = case backend of
      Hybrid -> ("epoll", "it costs least where threads move between cores")
      Epoll -> ("epoll", "it works on every Linux")
      IoUring -> ("io_uring", "chosen by name; with many connections epoll costs less")
      Kqueue -> ("kqueue", "the system has no better one")
      Iocp -> ("completion ports", "the system has no better one")
    (files, whyFiles) = case backend of
      Iocp -> ("completion ports", "no thread waits for the disk")
      _ | backend `elem` [Hybrid, IoUring] -> ("io_uring", "no thread waits for the disk")
      _ -> ("helper threads", "without io_uring a thread must wait for the disk")
    byHelpers what why = (what, "helper threads", why)

helpersText :: HelperCounts -> String
helpersText counts
  | helpersMost counts == 0 = "none on this system"
  | otherwise =
    "at most "
      <> show (helpersMost counts)
      <> "; now "
      <> show (helpersStarted counts)
      <> " (calls: "
      <> show (helpersRunning counts)
      <> " being made, "
      <> show (helpersQueued counts)
      <> " waiting)"

processorsText :: Examination -> String
processorsText examination = show processors <> foldMap allowed (examinedQuota examination)
  where
    allowed quota =
      ", of which a quota allows "
        <> show (percent quota)
        <> " %: "
        <> cores (coresWithin (Just quota) processors)
        <> " used"
    cores count = if count == 1 then "one is" else show count <> " are"
    processors = examinedProcessors examination

-- In per cent of one processor, like systemd's CPUQuota=.
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
  NotTried -> "not tried, another was chosen by name"

choiceText :: BackendChoice -> String
choiceText choice = case choice of
  Chosen backend reason -> backendName backend <> " (" <> reason <> ")"
  NothingChosen reason -> "nothing, it " <> reason

-- | The result for programs: one JSON object. An example in the tests shows its members.
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
        ("http3", either (const Null) String (examinedHttp3 examination)),
        ("backends", Array [backendJson backend health | (backend, health) <- examinedBackends examination]),
        ("chosen", chosen),
        ("reason", String reason),
        ( "interfaces",
          Object
            [(what, String interface) | (what, interface, _) <- interfaces (examinedChoice examination)]
        ),
        ( "helper_threads",
          Object
            [(name, Number (toInteger (count (examinedHelpers examination)))) | (name, count) <- helperFields]
        )
      ]
  where
    optional = maybe Null Number
    helperFields =
      [ ("most", helpersMost),
        ("started", helpersStarted),
        ("idle", helpersIdle),
        ("running", helpersRunning),
        ("queued", helpersQueued)
      ]
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
