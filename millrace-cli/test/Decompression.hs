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
        "buffer = ctypes.create_string_buffer(16 << 20)",
        "if coding == 'gzip':",
        "    result = gzip.decompress(data)",
        "elif coding == 'br':",
        "    size = ctypes.c_size_t(len(buffer))",
        "    decode = ctypes.CDLL('libbrotlidec.so.1').BrotliDecoderDecompress",
        "    assert decode(ctypes.c_size_t(len(data)), data, ctypes.byref(size), buffer) == 1",
        "    result = buffer.raw[:size.value]",
        "elif coding == 'zstd':",
        "    decode = ctypes.CDLL('libzstd.so.1').ZSTD_decompress",
        "    decode.restype = ctypes.c_size_t",
        "    size = decode(buffer, ctypes.c_size_t(len(buffer)), data, ctypes.c_size_t(len(data)))",
        "    assert size <= len(buffer)",
        "    result = buffer.raw[:size]",
        "open(target, 'wb').write(result)"
      ]
