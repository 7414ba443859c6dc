-- | Certificates for tests, made by the command of OpenSSL.
module Certificates (withCertificates) where

import Site (withDirectory)
import System.FilePath ((</>))
import System.Process (callProcess)

-- | Certificates that are their own authorities: one and two for this machine, other for another name.
withCertificates :: (FilePath -> IO a) -> IO a
withCertificates use = withDirectory $ \folder -> do
  mapM_ (make folder) [("one", "localhost"), ("two", "localhost"), ("other", "other.test")]
  use folder
  where
    make folder (name, host) =
      callProcess "openssl" $
        words "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -batch -subj"
          ++ [ "/CN="
                 ++ name,
               "-addext",
               "subjectAltName=DNS:"
                 ++ host,
               "-keyout",
               folder </> (name ++ ".key"),
               "-out",
               folder </> (name ++ ".pem")
             ]
