{-# LANGUAGE OverloadedStrings #-}

-- | Undoes content codings, by programs that are not Millrace's.
module Decompression (decompressed) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as ByteString
import qualified Data.ByteString.Char8 as Char8
import Site (withDirectory)
import System.FilePath ((</>))
import System.Process (callProcess)

-- | @decompressed coding bytes@. Fails if the bytes are not in this coding. Python has gzip in its library, and calls
-- the decoders of the other two.
decompressed :: ByteString -> ByteString -> IO ByteString
decompressed coding bytes = withDirectory $ \directory -> do
  ByteString.writeFile (directory </> "in") bytes
  callProcess "python3" ["-c", unlines program, Char8.unpack coding, directory </> "in", directory </> "out"]
  ByteString.readFile (directory </> "out")
  where
    program =
      [ "import ctypes, gzip, sys",
        "coding, source, target = sys.argv[1:]",
        "data = open(source, 'rb').read()",
        "room = ctypes.create_string_buffer(16 << 20)",
        "if coding == 'gzip':",
        "    result = gzip.decompress(data)",
        "elif coding == 'br':",
        "    size = ctypes.c_size_t(len(room))",
        "    decode = ctypes.CDLL('libbrotlidec.so.1').BrotliDecoderDecompress",
        "    assert decode(ctypes.c_size_t(len(data)), data, ctypes.byref(size), room) == 1",
        "    result = room.raw[:size.value]",
        "elif coding == 'zstd':",
        "    decode = ctypes.CDLL('libzstd.so.1').ZSTD_decompress",
        "    decode.restype = ctypes.c_size_t",
        "    size = decode(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)))",
        "    assert size <= len(room)",
        "    result = room.raw[:size]",
        "open(target, 'wb').write(result)"
      ]
