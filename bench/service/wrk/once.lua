-- wrk's script: `once.lua URL -- FILE` asks once for each path that FILE lists, a line each, and says how long that took as JSON.
-- The clock stops when the last of them is asked for: then all but those still under way have been answered, on every side alike.
-- wrk itself would go on until its time is over: whoever started it interrupts it when the line is there.
local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } mds_timespec;
  int clock_gettime(int clock, mds_timespec *now);
]]

local MONOTONIC = 1
local instant = ffi.new("mds_timespec")
local function now()
  ffi.C.clock_gettime(MONOTONIC, instant)
  return tonumber(instant.seconds) + tonumber(instant.nanoseconds) / 1e9
end

local requests = {}
local at = 0
local started

function init(args)
  for path in io.lines(args[1]) do requests[#requests + 1] = wrk.format("GET", path) end
end

-- wrk calls it once before it begins.
local tried = false
function request()
  if not tried then
    tried = true
    return requests[1]
  end
  if at == 0 then started = now() end
  if at < #requests then
    at = at + 1
    if at == #requests then
      io.write(string.format('{"seconds":%.6f}\n', now() - started))
      io.flush()
      wrk.thread:stop()
    end
  end
  return requests[at]
end

function done(summary)
  local errors = summary.errors
  io.write(string.format('{"failures":%d}\n', errors.connect + errors.read + errors.write + errors.status))
end
