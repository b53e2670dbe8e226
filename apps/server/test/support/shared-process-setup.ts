// Vitest runs it before each file of those that share a process: every one of them has loggers of its own, which all want to be told of the
// end of the process. Node would take so many for a leak.
process.setMaxListeners(1_000);
