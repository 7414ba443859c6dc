-- | The report about a machine.
module Millrace.Cli.Serve.DoctorSpec (spec) where

import Millrace.Cli.Base.Backend (tooManyLoops)
import Millrace.Cli.Base.Json
import Millrace.Cli.Serve.Doctor
import Millrace.Manager (Backend (..), HelperCounts (..), version)
import Test.Hspec

spec :: Spec
spec = do
  describe "reports" $ do
    it "to people" $
      renderText restricted
        `shouldBe` unlines
          [ "millrace            " <> version,
            "kernel              Linux 6.1.0 x86_64",
            "processors          4",
            "descriptors         1024, raised to unlimited by a server",
            "accept queue        4096",
            "io_uring_disabled   2 (nobody may use io_uring)",
            "HTTP/3              ngtcp2 1, nghttp3 2",
            "backend hybrid      does not work: forbidden",
            "backend epoll       works",
            "a server would use  epoll (hybrid does not work here)",
            "  for sockets       epoll: it works on every Linux",
            "  for files         helper threads: without io_uring a thread must wait for the disk",
            "  for opening       helper threads: it may wait for the disk, and has no operation",
            "  for directories   helper threads: they may wait for the disk, and have no operations",
            "  for programs      helper threads: the system returns only when the program has begun",
            "  for names         helper threads: the system looks names up in no other way",
            "helper threads      at most 96; now 3 (calls: 1 being made, 0 waiting)"
          ]
    it "how many loops a backend cannot start, and what may be too low" $ do
      tooManyLoops Epoll 1 `shouldBe` "cannot start a loop"
      tooManyLoops IoUring 4 `shouldStartWith` "cannot start 4 loops: "
      tooManyLoops Hybrid 4 `shouldContain` "ulimit -l"
    it "a limit that cannot be raised" $
      renderText restricted {examinedHardLimit = Just 1024} `shouldContain` "descriptors         1024\n"
    it "a program without HTTP/3" $ do
      renderText restricted {examinedHttp3 = Left "a reason"} `shouldContain` "\nHTTP/3              no: a reason\n"
      renderAsJson restricted {examinedHttp3 = Left "a reason"} `shouldContain` "  \"http3\": null,\n"
    it "a quota" $ do
      renderText restricted {examinedQuota = Just 1.5}
        `shouldContain` "processors          4, of which a quota allows 150 %: 2 are used\n"
      renderText restricted {examinedQuota = Just 0.5}
        `shouldContain` "processors          4, of which a quota allows 50 %: one is used\n"
      renderAsJson restricted {examinedQuota = Just 1.5}
        `shouldContain` "  \"processor_quota_percent\": 150,\n  \"cores\": 2,\n"
    it "to programs" $
      renderAsJson restricted
        `shouldBe` unlines
          [ "{",
            "  \"millrace\": \"" <> version <> "\",",
            "  \"kernel\": \"Linux 6.1.0 x86_64\",",
            "  \"processors\": 4,",
            "  \"processor_quota_percent\": null,",
            "  \"cores\": 4,",
            "  \"descriptors_soft_limit\": 1024,",
            "  \"descriptors_hard_limit\": null,",
            "  \"accept_queue\": 4096,",
            "  \"io_uring_disabled\": 2,",
            "  \"http3\": \"ngtcp2 1, nghttp3 2\",",
            "  \"backends\": [",
            "    {",
            "      \"name\": \"hybrid\",",
            "      \"works\": false,",
            "      \"reason\": \"forbidden\"",
            "    },",
            "    {",
            "      \"name\": \"epoll\",",
            "      \"works\": true,",
            "      \"reason\": null",
            "    }",
            "  ],",
            "  \"chosen\": \"epoll\",",
            "  \"reason\": \"hybrid does not work here\",",
            "  \"interfaces\": {",
            "    \"sockets\": \"epoll\",",
            "    \"files\": \"helper threads\",",
            "    \"opening\": \"helper threads\",",
            "    \"directories\": \"helper threads\",",
            "    \"programs\": \"helper threads\",",
            "    \"names\": \"helper threads\"",
            "  },",
            "  \"helper_threads\": {",
            "    \"most\": 96,",
            "    \"started\": 3,",
            "    \"idle\": 2,",
            "    \"running\": 1,",
            "    \"queued\": 0",
            "  }",
            "}"
          ]
  describe "is well" $ do
    it "if a server would start" $ isHealthy restricted `shouldBe` True
    it "and not otherwise" $ isHealthy restricted {examinedChoice = NothingChosen "bad luck"} `shouldBe` False
  describe "JSON" $ do
    it "escapes" $
      renderJson (String "a\"\\\n\t\DEL\233\8364\128512")
        `shouldBe` "\"a\\\"\\\\\\u000a\\u0009\\u007f\\u00e9\\u20ac\\ud83d\\ude00\""
    it "has empty things" $ renderJson (Array [Object [], Array []]) `shouldBe` "[\n  {},\n  []\n]"
  where
    restricted =
      Examination
        { examinedKernel = "Linux 6.1.0 x86_64",
          examinedProcessors = 4,
          examinedQuota = Nothing,
          examinedSoftLimit = Just 1024,
          examinedHardLimit = Nothing,
          examinedAcceptQueue = Just 4096,
          examinedIoUringDisabled = Just 2,
          examinedHttp3 = Right "ngtcp2 1, nghttp3 2",
          examinedBackends = [(Hybrid, Refused "forbidden"), (Epoll, Works)],
          examinedChoice = Chosen Epoll "hybrid does not work here",
          examinedHelpers =
            HelperCounts
              { helpersStarted =
                  3,
                helpersIdle = 2,
                helpersQueued = 0,
                helpersRunning = 1,
                helpersMost = 96,
                helpersDone = 7
              }
        }
