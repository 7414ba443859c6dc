-- Must not know: sockets.

-- | The numbers by which PostgreSQL names its types. They are the same in all servers.
module Millrace.Postgresql.Internal.TypeNumber
  ( Oid,
    nameOf,
    oidBool,
    oidBytea,
    oidInt8,
    oidInt2,
    oidInt4,
    oidText,
    oidJson,
    oidFloat4,
    oidFloat8,
    oidUnknown,
    oidBpchar,
    oidVarchar,
    oidName,
    oidChar,
    oidDate,
    oidTime,
    oidTimestamp,
    oidTimestamptz,
    oidNumeric,
    oidJsonb,
    oidXml,
    oidOid,
    oidVoid,
  )
where

import Data.Maybe (fromMaybe)
import Data.Word (Word32)

-- | The number of a type.
type Oid = Word32

oidBool,
  oidBytea,
  oidChar,
  oidName,
  oidInt8,
  oidInt2,
  oidInt4,
  oidText,
  oidOid,
  oidJson,
  oidXml,
  oidFloat4,
  oidFloat8 ::
    Oid
oidBool = 16
oidBytea = 17
oidChar = 18
oidName = 19
oidInt8 = 20
oidInt2 = 21
oidInt4 = 23
oidText = 25
oidOid = 26
oidJson = 114
oidXml = 142
oidFloat4 = 700
oidFloat8 = 701

oidUnknown, oidBpchar, oidVarchar, oidDate, oidTime, oidTimestamp, oidTimestamptz, oidNumeric, oidVoid, oidJsonb :: Oid
oidUnknown = 705
oidBpchar = 1042
oidVarchar = 1043
oidDate = 1082
oidTime = 1083
oidTimestamp = 1114
oidTimestamptz = 1184
oidNumeric = 1700
oidVoid = 2278
oidJsonb = 3802

-- | The name of a type, for messages.
nameOf :: Oid -> String
nameOf oid = fromMaybe ("the type with the number " ++ show oid) (lookup oid names)
  where
    names =
      [ (oidBool, "boolean"),
        (oidBytea, "bytea"),
        (oidChar, "\"char\""),
        (oidName, "name"),
        (oidInt8, "bigint"),
        (oidInt2, "smallint"),
        (oidInt4, "integer"),
        (oidText, "text"),
        (oidOid, "oid"),
        (oidJson, "json"),
        (oidXml, "xml"),
        (oidFloat4, "real"),
        (oidFloat8, "double precision"),
        (oidUnknown, "unknown"),
        (oidBpchar, "character"),
        (oidVarchar, "character varying"),
        (oidDate, "date"),
        (oidTime, "time"),
        (oidTimestamp, "timestamp"),
        (oidTimestamptz, "timestamp with time zone"),
        (oidNumeric, "numeric"),
        (oidVoid, "void"),
        (oidJsonb, "jsonb")
      ]
