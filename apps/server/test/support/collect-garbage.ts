import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Has this process collect what it needs no more, now. */
export const collectGarbage: () => void = runInNewContext('gc');
