{-# LANGUAGE OverloadedStrings #-}

-- | Dates in HTTP headers (RFC 9110 section 5.6.7). Knows nothing of requests.
module Millrace.Cli.HttpDate
  ( Seconds
  , formatHttpDate
  , parseHttpDate
  ) where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8
import Data.Int (Int64)
import Data.Time (UTCTime (..), addGregorianYearsClip, defaultTimeLocale, parseTimeM)
import Data.Time.Clock.POSIX (posixSecondsToUTCTime, utcTimeToPOSIXSeconds)
import Network.HTTP.Date (epochTimeToHTTPDate, formatHTTPDate)

-- | Seconds since 1970, leap seconds not counted.
--
-- @since 0.1.0
type Seconds = Int64

-- | The form that is sent.
--
-- >>> formatHttpDate 784111777
-- "Sun, 06 Nov 1994 08:49:37 GMT"
--
-- @since 0.1.0
formatHttpDate :: Seconds -> ByteString
formatHttpDate = formatHTTPDate . epochTimeToHTTPDate . fromIntegral

-- | Reads all three forms that a recipient must accept. The first argument is the present: it decides the century of
-- the two-digit years of the second form, which are never more than 50 years in the future.
--
-- @since 0.1.0
parseHttpDate :: Seconds -> ByteString -> Maybe Seconds
parseHttpDate now text = seconds <$> (form imfFixdate <|> (within50Years <$> form rfc850) <|> form asctime)
  where
    form layout = parseTimeM False defaultTimeLocale layout (Char8.unpack text)
    imfFixdate = "%a, %d %b %Y %H:%M:%S GMT"
    rfc850 = "%A, %d-%b-%y %H:%M:%S GMT"
    asctime = "%a %b %e %H:%M:%S %Y"
    seconds = floor . utcTimeToPOSIXSeconds
    within50Years = nearest (posixSecondsToUTCTime (fromIntegral now))

-- The last date up to 50 years after `now` with the same last two digits of the year.
nearest :: UTCTime -> UTCTime -> UTCTime
nearest now date = last (takeWhile (<= limit) (iterate (plusYears 100) (plusYears (-1000) date)))
  where
    limit = plusYears 50 now
    plusYears years (UTCTime day time) = UTCTime (addGregorianYearsClip years day) time
