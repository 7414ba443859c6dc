-- Lets wrk send the requests of a file in turn, and prints its figures like ../driver/wrk.lua.
--
-- After "--": the file and the number of requests in each write. The file has each request after its length in a line of its
-- own. {OLD} in a request becomes a random number of five digits, {NEWX} a number of six digits that has not been there.

dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "../driver/wrk.lua")

local threads = 0

function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

local function read(path)
   local file, found = assert(io.open(path, "rb")), {}
   for line in file:lines() do found[#found + 1] = file:read(tonumber(line)) end
   file:close()
   return found
end

function init(args)
   local requests, depth = read(args[1]), tonumber(args[2] or "1")
   math.randomseed(number + 1)
   for index, text in ipairs(requests) do requests[index] = string.rep(text, depth) end
   local varies = {}
   for index, text in ipairs(requests) do varies[index] = text:find("{OLD}", 1, true) or text:find("{NEWX}", 1, true) end
   local index, made = math.random(#requests), 100000 * (number + 2)
   request = function()
      index = index % #requests + 1
      if not varies[index] then return requests[index] end
      made = made + 1
      return (requests[index]:gsub("{OLD}", math.random(10000, 99999)):gsub("{NEWX}", made))
   end
end
