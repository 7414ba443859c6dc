{-# LANGUAGE OverloadedStrings #-}

-- | Fields that keep browsers from doing what most sites never want. Must not know: servers, files.
module Millrace.Cli.SecurityHeaders (securing) where

import Network.Wai

-- | Adds those that an answer does not have:
--
-- * @X-Content-Type-Options: nosniff@: a text is not run as a script because it looks like one.
-- * @X-Frame-Options: SAMEORIGIN@: pages of others cannot show this one in a frame, to have it clicked on unseen.
-- * @Referrer-Policy: strict-origin-when-cross-origin@: other sites learn where a visitor comes from, not from which page.
-- * @Cross-Origin-Opener-Policy: same-origin@: a page that was opened from another site has no handle on it.
--
-- @Strict-Transport-Security@ is not among them, because it cannot be taken back for as long as it says.
--
-- @since 0.1.0
securing :: Middleware
securing application request respond = application request (respond . mapResponseHeaders with)
  where
    with headers = headers <> [field | field@(name, _) <- usual, name `notElem` map fst headers]
    usual =
      [ ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "SAMEORIGIN"),
        ("Referrer-Policy", "strict-origin-when-cross-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin")
      ]
