-- Must not know: HTTP.

-- | The files of @pages\/@, which are compiled into the program (@cbits\/pages.c@).
module Millrace.Cli.Base.Page
  ( listingStyle,
    statusPage,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Foreign.C.Types (CChar, CSize (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek)
import System.IO.Unsafe (unsafePerformIO)

-- | The style sheet of listings.
listingStyle :: ByteString
listingStyle = embedded c_listing_css
{-# NOINLINE listingStyle #-}

-- | The status page, with its style and its script.
statusPage :: ByteString
statusPage = embedded c_status_html
{-# NOINLINE statusPage #-}

embedded :: (Ptr CSize -> IO (Ptr CChar)) -> ByteString
embedded find = unsafePerformIO . alloca $ \size -> do
  start <- find size
  peek size >>= \count -> unsafePackCStringLen (start, fromIntegral count)

foreign import ccall unsafe "millrace_cli_listing_css" c_listing_css :: Ptr CSize -> IO (Ptr CChar)

foreign import ccall unsafe "millrace_cli_status_html" c_status_html :: Ptr CSize -> IO (Ptr CChar)
