{-# LANGUAGE OverloadedStrings #-}

-- | Requests as bytes: those that are served, and those that RFC 9110 and RFC 9112 tell a server to refuse.
module Requests (validRequests, refusedRequests) where

import Data.ByteString (ByteString)
import qualified Data.ByteString as B
import qualified Data.ByteString.Char8 as C8

validRequests :: [ByteString]
validRequests =
  [ "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /x?y=z&%20 HTTP/1.1\r\nhost:a:8080\r\nAccept: */*\r\nX-Empty:\r\nX-Blank: \t \r\n\r\n",
    "GET http://example.org/path?q HTTP/1.1\r\nHost: other\r\n\r\n",
    "GET http://example.org?q HTTP/1.1\r\nHost: other\r\n\r\n",
    "GET HTTPS://[::1]:443 HTTP/1.1\r\nHost: other\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
    "CONNECT [2001:db8::192.0.2.1]:65535 HTTP/1.1\r\nHost: [v1.a:b]:1\r\n\r\n",
    "BREW /pot HTTP/1.1\r\nHost:\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a%2db_c.d~:\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [1:2:3:4:5:6:7:8]\r\n\r\n",
    "GET / HTTP/1.0\r\nUpgrade: x\r\nA: b\r\n\r\n",
    "GET / HTTP/1.9\r\nHost: a\r\n\r\n",
    "POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\nExpect: 100-continue\r\n\r\n",
    "POST /form HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\nConnection: close, TE\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nCookie: \xc3\xa4\tb\r\nReferer: /r\r\nRange: bytes=0-\r\nUser-Agent: u\r\n\r\n"
  ]

-- | The rule, the status, and the request.
refusedRequests :: [(String, Int, ByteString)]
refusedRequests =
  [ ("RFC 9112, 3: no second space", 400, "GET /\r\n\r\n"),
    ("RFC 9112, 3: HTTP/0.9", 400, "GET / \r\n\r\n"),
    ("RFC 9112, 3: two spaces before the target", 400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: two spaces before the version", 400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: blank after the version", 400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: leading blank", 400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: tab between the words", 400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: not HTTP at all", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ("RFC 9112, 2.3: no HTTP version", 400, "GET /x UNKNOWN/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 2.3: lower case version", 400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 2.3: version of two digits", 400, "GET / HTTP/1.10\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 15.6.6: HTTP/2.0", 505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 15.6.6: HTTP/3.0", 505, "GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 15.6.6: HTTP/9.9", 505, "GET / HTTP/9.9\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 15.6.6: HTTP/0.9 by name", 505, "GET / HTTP/0.9\r\n\r\n"),
    ( "RFC 9113, 3.4: what begins like the HTTP/2 preface, with a method that is not OPTIONS",
      400,
      "PRI * HTTP/2.0\r\nHost: a\r\n\r\n"
    ),
    ("RFC 9112, 3: separator in the method", 400, "GE(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3: method too long", 501, B.concat [C8.replicate 33 'X', " / HTTP/1.1\r\nHost: a\r\n\r\n"]),
    ("RFC 9112, 3: target too long", 414, B.concat ["GET /", C8.replicate 8192 'x', " HTTP/1.1\r\nHost: a\r\n\r\n"]),
    ("RFC 9112, 3.2: relative target", 400, "GET index.html HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: control character in the target", 400, "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: NUL in the target", 400, "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: byte beyond ASCII in the target", 400, "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: fragment in the target", 400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.2: user information", 400, "GET http://user@host/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.2: empty host in absolute form", 400, "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.3: authority form without CONNECT", 400, "GET example.org:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 4.2.1: empty host before a port in absolute form", 400, "GET http://:80/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.2: scheme that is not HTTP's", 400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ( "RFC 9112, 3.2.2: an absolute form does not excuse an invalid Host",
      400,
      "GET http://a/ HTTP/1.1\r\nHost: b c\r\n\r\n"
    ),
    ("RFC 9110, 7.4: https on a connection that is not protected", 421, "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.3: CONNECT without a port", 400, "CONNECT example.org HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 9.3.6: CONNECT with an empty port", 400, "CONNECT example.org: HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 9.3.6: CONNECT to port 0", 400, "CONNECT example.org:0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9110, 9.3.6: CONNECT beyond port 65535", 400, "CONNECT example.org:65536 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.3: CONNECT with a path", 400, "CONNECT example.org:80/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.3: CONNECT in origin form", 400, "CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2.4: asterisk form without OPTIONS", 400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: no Host", 400, "GET / HTTP/1.1\r\n\r\n"),
    ("RFC 9112, 3.2: no Host in absolute form", 400, "GET http://a/ HTTP/1.1\r\n\r\n"),
    ("RFC 9112, 3.2: two Hosts", 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    ("RFC 9112, 3.2: two Hosts in HTTP/1.0", 400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    ("RFC 9112, 3.2: invalid Host", 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    ("RFC 9112, 3.2: Host with a path", 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ("RFC 9112, 3.2: Host with a port that is none", 400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
    ("RFC 9112, 3.2: list of Hosts", 400, "GET / HTTP/1.1\r\nHost: a, b\r\nX: y\r\nHost: c\r\n\r\n"),
    ("RFC 9110, 7.2: Host that is a port only", 400, host ":80"),
    ("RFC 9110, 7.2: Host with a port beyond 65535", 400, host "a:65536"),
    ("RFC 9110, 7.2: Host with user information", 400, host "user@a"),
    ("RFC 9110, 7.2: Host in brackets that is no address", 400, host "[a]"),
    ("RFC 9110, 7.2: Host in brackets that do not close", 400, host "[::1"),
    ("RFC 9110, 7.2: Host with a tail behind its brackets", 400, host "[::1]a"),
    ("RFC 3986, 2.1: Host with a broken percent-encoding", 400, host "a%2"),
    ("RFC 3986, 2.1: Host with a percent-encoding that is none", 400, host "a%zzb"),
    ("RFC 3986, 3.2.2: IPv6 address of seven groups", 400, host "[1:2:3:4:5:6:7]"),
    ("RFC 3986, 3.2.2: IPv6 address of nine groups", 400, host "[1:2:3:4:5:6:7:8:9]"),
    ("RFC 3986, 3.2.2: IPv6 address with two gaps", 400, host "[1::2::3]"),
    ("RFC 3986, 3.2.2: IPv6 address with three colons", 400, host "[1:::2]"),
    ("RFC 3986, 3.2.2: IPv6 address with two gaps, before an IPv4 address", 400, host "[1::2::1.2.3.4]"),
    ("RFC 3986, 3.2.2: IPv6 address with a group of five digits", 400, host "[::12345]"),
    ("RFC 3986, 3.2.2: IPv6 address that ends in a colon", 400, host "[1:2:3:4:5:6:7:]"),
    ("RFC 3986, 3.2.2: IPv6 address with a zone", 400, host "[fe80::1%25eth0]"),
    ("RFC 3986, 3.2.2: IPv4 part with a number beyond 255", 400, host "[::1.2.3.256]"),
    ("RFC 3986, 3.2.2: IPv4 part with a leading zero", 400, host "[::1.2.3.04]"),
    ("RFC 3986, 3.2.2: IPv4 part of three numbers", 400, host "[::1.2.3]"),
    ("RFC 3986, 3.2.2: gap that stands for nothing", 400, host "[1:2:3:4::5:6:7:8]"),
    ("RFC 3986, 3.2.2: future address without a version", 400, host "[v.a]"),
    ("RFC 9112, 5: line without a colon", 400, "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"),
    ("RFC 9112, 5: empty name", 400, "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    ("RFC 9112, 5.1: blank before the colon", 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    ("RFC 9112, 5.2: folded line", 400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"),
    ("RFC 9112, 2.2: blank line start after the request line", 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    ("RFC 9110, 5.1: separator in a name", 400, "GET / HTTP/1.1\r\nHost: a\r\nX(Y): b\r\n\r\n"),
    ("RFC 9110, 5.5: NUL in a value", 400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n"),
    ("RFC 9110, 5.5: control character in a value", 400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\x07\r\n\r\n"),
    ("RFC 9110, 5.5: DEL in a value", 400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1234567890\x7f\r\n\r\n"),
    ("RFC 9112, 2.2: bare LF after the request line", 400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    ("RFC 9112, 2.2: bare LF after a field", 400, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
    ("RFC 9112, 2.2: bare LF at the end", 400, "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    ("RFC 9112, 2.2: bare CR in a value", 400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n"),
    ("RFC 9112, 2.2: bare CR before the request line", 400, "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ( "RFC 6585, 5: head too long",
      431,
      B.concat
        ["GET / HTTP/1.1\r\nHost: a\r\nX: ", C8.replicate 52000 'x', "\r\n\r\n"]
    ),
    ( "RFC 6585, 5: too many fields",
      431,
      B.concat
        ["GET / HTTP/1.1\r\nHost: a\r\n", B.concat (replicate 128 "X: y\r\n"), "\r\n"]
    ),
    ("RFC 9112, 6.3: Content-Length no number", 400, post "Content-Length: abc"),
    ("RFC 9112, 6.3: negative Content-Length", 400, post "Content-Length: -5"),
    ("RFC 9112, 6.3: Content-Length with a sign", 400, post "Content-Length: +5"),
    ("RFC 9112, 6.3: empty Content-Length", 400, post "Content-Length:"),
    ("RFC 9112, 6.3: list of lengths", 400, post "Content-Length: 5, 5"),
    ("RFC 9112, 6.3: Content-Length with a tail", 400, post "Content-Length: 5x"),
    ("RFC 9110, 8.6: Content-Length of 2^63", 400, post "Content-Length: 9223372036854775808"),
    ("RFC 9110, 8.6: Content-Length of 2^64 + 5", 400, post "Content-Length: 18446744073709551621"),
    ("RFC 9112, 6.3: two different lengths", 400, post "Content-Length: 5\r\nContent-Length: 6"),
    ("RFC 9112, 6.3: two equal lengths", 400, post "Content-Length: 5\r\nContent-Length: 5"),
    ("RFC 9112, 6.1: length and coding together", 400, post "Content-Length: 5\r\nTransfer-Encoding: chunked"),
    ("RFC 9112, 6.1: coding and length together", 400, post "Transfer-Encoding: chunked\r\nContent-Length: 5"),
    ( "RFC 9112, 6.1: Transfer-Encoding in HTTP/1.0",
      400,
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    ("RFC 9112, 6.1: unknown coding before chunked", 501, post "Transfer-Encoding: gzip, chunked"),
    ( "RFC 9112, 6.1: unknown coding in another line",
      501,
      post
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"
    ),
    ("RFC 9112, 6.3: chunked is not the last coding", 400, post "Transfer-Encoding: chunked, gzip"),
    ("RFC 9112, 6.1: chunked twice", 400, post "Transfer-Encoding: chunked, chunked"),
    ("RFC 9112, 6.1: chunked twice in two lines", 400, post "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    ("RFC 9112, 6.3: coding that only looks like chunked", 400, post "Transfer-Encoding: xchunked"),
    ("RFC 9112, 6.3: coding with a vertical tab", 400, post "Transfer-Encoding: \x0b\&chunked"),
    ("RFC 9112, 6.3: empty coding", 400, post "Transfer-Encoding:"),
    ("RFC 9112, 7: chunked with a parameter", 400, post "Transfer-Encoding: chunked;a=b"),
    ("RFC 9110, 10.1.1: unknown expectation", 417, post "Content-Length: 5\r\nExpect: 200-ok")
  ]

host :: ByteString -> ByteString
host value = B.concat ["GET / HTTP/1.1\r\nHost: ", value, "\r\n\r\n"]

post :: ByteString -> ByteString
post fields = B.concat ["POST / HTTP/1.1\r\nHost: a\r\n", fields, "\r\n\r\nhello"]
