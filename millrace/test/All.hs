-- | All specifications, in the order in which they run.
module All (spec) where

import qualified BatchSpec
import qualified BorrowedSpec
import qualified BufferedSpec
import qualified CloseSpec
import qualified ConnectSpec
import qualified ContractSpec
import qualified CrashSpec
import qualified CrashedDiskSpec
import qualified DatagramSpec
import qualified DirectorySpec
import qualified DurationSpec
import qualified ErrorNameSpec
import qualified ExampleSpec
import qualified FileAccessSpec
import qualified FileChurnSpec
import qualified FileSpec
import qualified ForkSpec
import qualified GsoSpec
import qualified InterruptSpec
import qualified KillSpec
import qualified LogSpec
import qualified ManagerSpec
import qualified MigrationSpec
import qualified OperationSpec
import qualified OptionSpec
import qualified PeerSpec
import qualified PipeSpec
import qualified PoolSpec
import qualified ProcessSpec
import qualified ScarcitySpec
import qualified SharedWaitSpec
import qualified SimulationEndSpec
import qualified SimulationSpec
import qualified SocketDescriptorSpec
import qualified SocketErrorSpec
import qualified SocketSpec
import qualified SpliceSpec
import qualified StandardStreamSpec
import qualified StayingSpec
import qualified StreamSpec
import Test.Hspec (Spec)
import qualified ThreadChurnSpec
import qualified TimeoutSpec
import qualified TimerSpec
import qualified ToolkitSpec
import qualified TransferSpec
import qualified UnixPathSpec
import qualified UnixSpec
import qualified WaitSpec
import qualified WaitersSpec
import qualified WatchSpec

spec :: Spec
spec = do
  ManagerSpec.spec
  SocketSpec.spec
  SocketDescriptorSpec.spec
  SocketErrorSpec.spec
  ErrorNameSpec.spec
  TransferSpec.spec
  ExampleSpec.spec
  FileSpec.spec
  BufferedSpec.spec
  DirectorySpec.spec
  FileAccessSpec.spec
  WatchSpec.spec
  LogSpec.spec
  StandardStreamSpec.spec
  CrashSpec.spec
  CrashedDiskSpec.spec
  PipeSpec.spec
  ProcessSpec.spec
  StreamSpec.spec
  ConnectSpec.spec
  ToolkitSpec.spec
  DatagramSpec.spec
  UnixPathSpec.spec
  UnixSpec.spec
  SpliceSpec.spec
  OptionSpec.spec
  BatchSpec.spec
  GsoSpec.spec
  DurationSpec.spec
  TimerSpec.spec
  TimeoutSpec.spec
  PoolSpec.spec
  WaitSpec.spec
  OperationSpec.spec
  WaitersSpec.spec
  CloseSpec.spec
  PeerSpec.spec
  InterruptSpec.spec
  SharedWaitSpec.spec
  KillSpec.spec
  BorrowedSpec.spec
  ContractSpec.spec
  ThreadChurnSpec.spec
  FileChurnSpec.spec
  ScarcitySpec.spec
  SimulationSpec.spec
  SimulationEndSpec.spec
  MigrationSpec.spec
  StayingSpec.spec
  ForkSpec.spec
