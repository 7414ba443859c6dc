-- |
-- Memory of the C code for a piece of a response's body, which the engine of HTTP\/2 or HTTP\/3 takes without copying
-- it. Must not know:
-- connections, requests, responses.
module Millrace.Http.Multiplexed.Piece
  ( Piece,
    newPiece,
    pieceBytes,
    freePiece,
    filePiece,
  )
where

#include "http_body.h"

import Data.Word (Word8)
import Foreign.C.Types (CSize (..))
import Foreign.Ptr (Ptr)

-- | A piece.
data Piece

foreign import ccall unsafe "http_new_piece"
  c_newPiece :: CSize -> IO (Ptr Piece)

-- | Memory for this many bytes, at most a mebibyte; @nullPtr@ if there is none. The engine must take it, or 'freePiece'
-- must follow.
newPiece :: Int -> IO (Ptr Piece)
newPiece = c_newPiece . fromIntegral

-- | Where the bytes belong.
foreign import ccall unsafe "http_piece_bytes"
  pieceBytes :: Ptr Piece -> IO (Ptr Word8)

-- | Frees a piece that the engine has not taken.
foreign import ccall unsafe "http_free_piece"
  freePiece :: Ptr Piece -> IO ()

-- | The size of the pieces in which files are read.
filePiece :: Int
filePiece = #{const HTTP_FILE_PIECE}
