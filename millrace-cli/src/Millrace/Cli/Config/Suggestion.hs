-- Must not know: servers, files.

-- | Finds the word that a user probably meant.
module Millrace.Cli.Config.Suggestion
  ( nearest,
    didYouMean,
  )
where

import Data.List (intercalate, minimumBy)
import Data.Ord (comparing)

-- | The choice that is nearest to a misspelt word. 'Nothing' if none is near: up to a third of the letters may differ.
--
-- >>> nearest ["host", "port"] "prot"
-- Just "port"
nearest :: [String] -> String -> Maybe String
nearest [] _ = Nothing
nearest choices word
  | distance word best <= (length word + 2) `div` 3 = Just best
  | otherwise = Nothing
  where
    best = minimumBy (comparing (distance word)) choices

-- | The end of a message about an unknown word: the nearest choice, or all of them.
--
-- >>> didYouMean ["host", "port"] "hots"
-- ". Did you mean 'host'?"
didYouMean :: [String] -> String -> String
didYouMean choices word = case nearest choices word of
  Just best -> ". Did you mean '" <> best <> "'?"
  Nothing -> if null choices then "" else "; there are: " <> intercalate ", " choices

-- The number of letters to insert, remove or replace to make one word the other (Levenshtein's distance). O(n m).
distance :: String -> String -> Int
distance one other = last (foldl row [0 .. length other] one)
  where
    row above letter = scanl next (firstOf above + 1) (zip3 other above (drop 1 above))
      where
        next left (found, diagonal, up) = minimum [left + 1, up + 1, diagonal + (if found == letter then 0 else 1)]
    firstOf = foldr const 0
