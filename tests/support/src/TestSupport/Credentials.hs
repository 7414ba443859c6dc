-- | Certificates and keys for tests. Each package makes its own, by a script of OpenSSL calls.
module TestSupport.Credentials
  ( Credentials,
    withCredentials,
    fileOf,
    certificateFile,
    keyFile,
  )
where

import System.FilePath ((</>))
import System.Process (callProcess)
import TestSupport.Folder (withTemporaryFolder)

-- | A folder with certificates and keys.
newtype Credentials = Credentials FilePath

-- | Lets the script @test/credentials@ of the package fill a folder, for the time of an action.
withCredentials :: (Credentials -> IO a) -> IO a
withCredentials use =
  withTemporaryFolder "millrace-credentials" $ \folder ->
    callProcess "test/credentials" [folder] >> use (Credentials folder)

-- | The path of the file with this name.
fileOf :: Credentials -> FilePath -> FilePath
fileOf (Credentials folder) name = folder </> name

-- | The path of the certificate with this name.
certificateFile :: Credentials -> String -> FilePath
certificateFile credentials name = fileOf credentials (name ++ ".pem")

-- | The path of the key of the certificate with this name.
keyFile :: Credentials -> String -> FilePath
keyFile credentials name = fileOf credentials (name ++ ".key")
