-- | Prints the parts of packages on 64-bit Windows, as Cabal itself computes them: a line with component, field and
-- value for each module, C file, option and dependency. Leaves out test suites and components that are not buildable
-- there.
--
-- > runghc Components.hs millrace/millrace.cabal
module Main (main) where

import Data.List (intercalate)
import Distribution.Compiler
import Distribution.PackageDescription
import Distribution.PackageDescription.Configuration (finalizePD)
import Distribution.PackageDescription.Parsec (readGenericPackageDescription)
import Distribution.Pretty (prettyShow)
import Distribution.System (Arch (X86_64), OS (Windows), Platform (..))
import Distribution.Types.ComponentRequestedSpec (ComponentRequestedSpec (..))
import Distribution.Types.UnqualComponentName (unUnqualComponentName)
import Distribution.Verbosity (silent)
import System.Environment (getArgs)

main :: IO ()
main = getArgs >>= mapM_ describe

describe :: FilePath -> IO ()
describe path = do
  general <- readGenericPackageDescription silent path
  let spec = ComponentRequestedSpec {testsRequested = False, benchmarksRequested = False}
      compiler = unknownCompilerInfo buildCompilerId NoAbiTag
  case finalizePD mempty spec (const True) (Platform X86_64 Windows) compiler [] general of
    Left missing -> error (path ++ ": cannot be configured for Windows: " ++ show missing)
    Right (package, _) -> do
      let name = prettyShow (pkgName (specVersionless package))
      mapM_ (putStr . component name . libraryFields) (library package)
      mapM_
        ( \program ->
            putStr (component (name ++ ":" ++ unUnqualComponentName (exeName program)) (programFields program))
        )
        (executables package)
  where
    specVersionless = Distribution.PackageDescription.package

libraryFields :: Library -> (BuildInfo, [(String, String)])
libraryFields one = (libBuildInfo one, [("exposed-module", prettyShow name) | name <- exposedModules one])

programFields :: Executable -> (BuildInfo, [(String, String)])
programFields one = (buildInfo one, [("main", modulePath one)])

component :: String -> (BuildInfo, [(String, String)]) -> String
component name (info, own)
  | not (buildable info) = line ("buildable", "False")
  | otherwise =
    concatMap line $
      own
        ++ concat
          [ [("module", prettyShow one) | one <- otherModules info],
            [("generated", prettyShow one) | one <- autogenModules info],
            [("source-dir", one) | one <- hsSourceDirs info],
            [("c-source", one) | one <- cSources info],
            [("asm-source", one) | one <- asmSources info],
            [("include-dir", one) | one <- includeDirs info],
            [("cc-option", one) | one <- ccOptions info],
            [("extra-library", one) | one <- extraLibs info],
            [("pkgconfig", prettyShow one) | one <- pkgconfigDepends info],
            [("depends", prettyShow one) | Dependency one _ _ <- targetBuildDepends info]
          ]
  where
    line (field, value) = intercalate "\t" [name, field, value] ++ "\n"
