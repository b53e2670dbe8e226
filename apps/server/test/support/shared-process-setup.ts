// Vitest runs this before each file that shares a process. Each file has its own loggers, which listen for the end of the process. Node
// would report so many listeners as a leak.
process.setMaxListeners(1_000);
