/** Why a task ended without an answer of its own. */
export type IsolateFailure = 'crashed' | 'timeout' | 'out_of_memory' | 'aborted' | 'stopped';

/** The child process died, or was killed, during the task. `message` has the cause. */
export class IsolateError extends Error {
  readonly failure: IsolateFailure;

  constructor(failure: IsolateFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'IsolateError';
    this.failure = failure;
  }
}

/** An error that the task itself threw in the child: its name, code and message, without the class. */
export class TaskError extends Error {
  readonly taskErrorName: string;
  readonly code: string | undefined;

  constructor(error: { name: string; code?: string | undefined; message: string }) {
    super(error.message);
    this.name = 'TaskError';
    this.taskErrorName = error.name;
    this.code = error.code;
  }
}
