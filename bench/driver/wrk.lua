-- Makes wrk print its figures as one line of JSON. The argument after "--" is the number of requests in each write.

local percentiles = { 50, 90, 99, 99.9, 99.99 }

function init(args)
   local depth = tonumber(args[1] or "1")
   if depth > 1 then
      local batch = string.rep(wrk.format(), depth)
      request = function() return batch end
   end
end

function done(summary, latency, requests)
   local fields = {}
   local function add(name, value) fields[#fields + 1] = string.format('"%s": %.3f', name, value) end
   add("requests", summary.requests)
   add("duration_us", summary.duration)
   add("bytes", summary.bytes)
   for kind, count in pairs(summary.errors) do add("errors_" .. kind, count) end
   for _, percentile in ipairs(percentiles) do
      add("latency_p" .. tostring(percentile):gsub("%.", "_") .. "_us", latency:percentile(percentile))
   end
   add("latency_max_us", latency.max)
   io.write("figures {" .. table.concat(fields, ", ") .. "}\n")
end
