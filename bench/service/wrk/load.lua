-- wrk's script: `load.lua URL -- [RANGE...]` asks for those ranges in turn; says what came of it as one line of JSON.
function init(args)
  if #args == 0 then return end
  local requests = {}
  for i = 1, #args do
    requests[i] = wrk.format("GET", nil, { ["Range"] = args[i], ["Host"] = wrk.headers["Host"] })
  end
  local at = 0
  function request()
    at = at % #requests + 1
    return requests[at]
  end
end

function done(summary)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"requests":%d,"seconds":%.6f,"failures":%d}\n',
    summary.requests, summary.duration / 1e6, failures
  ))
end
