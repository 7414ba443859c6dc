{-# LANGUAGE OverloadedStrings #-}

-- | Cores by the CPU quotas of control groups.
module Millrace.Cli.Serve.ProcessorsSpec (spec) where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Millrace.Cli.Serve.Processors
import Site
import Test.Hspec

spec :: Spec
spec = do
  describe "a quota" . around withDirectory $ do
    it "is none where nothing tells of one" $ \top -> processorQuotaBelow top `shouldReturn` Nothing
    forM_ quotas $ \(what, expected, files) ->
      it what $ \top -> do
        mapM_ (uncurry (write top)) files
        processorQuotaBelow top `shouldReturn` expected
  it "is worth the cores that it comes to, rounded up, and one at least" $
    [coresWithin quota 4 | quota <- [Nothing, Just 0.01, Just 1, Just 1.01, Just 4, Just 64]]
      `shouldBe` [4, 1, 1, 2, 4, 4]

-- | What there is, the quota, and the files that tell of it.
quotas :: [(String, Maybe Rational, [(FilePath, ByteString)])]
quotas =
  [ ( "of version 2, seen from inside a container",
      Just 1.5,
      [("proc/self/cgroup", "0::/\n"), unified "/", ("sys/fs/cgroup/cpu.max", "150000 100000\n")]
    ),
    ( "of version 2 may be none",
      Nothing,
      [("proc/self/cgroup", "0::/\n"), unified "/", ("sys/fs/cgroup/cpu.max", "max 100000\n")]
    ),
    ( "of version 2 is the least of those above",
      Just 0.5,
      [ ("proc/self/cgroup", "0::/site.slice/web:1.service\n"),
        unified "/",
        ("sys/fs/cgroup/site.slice/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/site.slice/web:1.service/cpu.max", "20000 10000\n"),
        ("sys/fs/cgroup/site.slice/other.service/cpu.max", "1000 100000\n")
      ]
    ),
    ( "of version 1, where the tree begins with the container's group",
      Just 2,
      [ ("proc/self/cgroup", "5:memory:/docker/4711\n4:cpu,cpuacct:/docker/4711\n0::/\n"),
        mounts ["30 29 0:26 /docker/4711 /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct"],
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
      ]
    ),
    ( "of version 1, where it begins with another group",
      Just 0.25,
      [ ("proc/self/cgroup", "4:cpu:/docker/4711\n"),
        mounts ["30 29 0:26 /docker/47 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu"],
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      ]
    ),
    ( "of version 1 may be none",
      Nothing,
      [ ("proc/self/cgroup", "4:cpu:/\n"),
        mounts ["30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"],
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
      ]
    ),
    ( "of version 1 is not that of another controller",
      Nothing,
      [ ("proc/self/cgroup", "4:cpuset:/\n"),
        mounts ["30 29 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset"],
        ("sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n"),
        ("sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n")
      ]
    ),
    ( "is found where the tree is mounted, blanks included",
      Just 3,
      [ ("proc/self/cgroup", "0::/\n"),
        mounts ["29 1 0:26 / /a\\040place rw shared:4 - cgroup2 none rw"],
        ("a place/cpu.max", "300000 100000\n")
      ]
    ),
    ( "is none in a file that nobody understands",
      Nothing,
      [("proc/self/cgroup", "0::/\n"), unified "/", ("sys/fs/cgroup/cpu.max", "0 0\n")]
    )
  ]
  where
    unified root =
      mounts
        [ "22 1 0:5 / /proc rw - proc proc rw",
          "29 1 0:26 "
            <> root
            <> " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
        ]
    mounts entries = ("proc/self/mountinfo", foldMap (<> "\n") entries)
