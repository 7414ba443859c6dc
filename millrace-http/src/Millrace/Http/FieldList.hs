-- | Fields whose value is a list (RFC 9110, section 5.6.1). The other side makes such a list as long as a head may be, and what is done for
-- each member would be done that often. So no list with more than 'membersMax' members is read. Must not know: connections.
module Millrace.Http.FieldList (membersMax, listMembers) where

import Data.ByteString (ByteString)
import qualified Data.ByteString.Char8 as Char8

-- | The most members of a list, with their parameters. No program is known to send a quarter of it.
--
-- @since 0.1.0
membersMax :: Int
membersMax = 128

-- | The members in all lines of a field, without the blanks around them. Empty members are left out. 'Nothing': there are more
-- than 'membersMax', those that are empty and parameters counted. Then nothing was done but to count commas and semicolons.
--
-- >>> listMembers ["a, b;q=1", ",c"]
-- Just ["a","b;q=1","c"]
-- >>> import qualified Data.ByteString.Char8 as Char8
-- >>> listMembers [Char8.replicate 128 ',']
-- Nothing
--
-- @since 0.1.0
listMembers :: [ByteString] -> Maybe [ByteString]
listMembers values
  | sum (map membersOf values) > membersMax = Nothing
  | otherwise = Just (filter (not . Char8.null) (map trim (concatMap (Char8.split ',') values)))
  where
    membersOf value = 1 + Char8.count ',' value + Char8.count ';' value
    trim = Char8.dropWhileEnd isBlank . Char8.dropWhile isBlank
    isBlank character = character == ' ' || character == '\t'
