// Shared by the root commands, which must work right after `git clone` with only Node and npm.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
const [MAJOR = 0, MINOR = 0] = process.versions.node.split('.').map(Number);
const STAMP = `${ROOT}node_modules/.installed`;

/** Runs a program in this terminal. Rejects if it does not exit with 0. */
export function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: 'inherit', ...options });
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      if (code === 0) resolve();
      else reject(new CommandFailed(`${command} ${args.join(' ')}`, code ?? 1, signal));
    });
  });
}

/** A program did not exit with 0. */
export class CommandFailed extends Error {
  constructor(command, code, signal) {
    super(`${command} ended with ${signal ?? code}`);
    this.exitCode = code;
  }
}

/** The path of a program of the installed packages. */
export const bin = (name) => `${ROOT}node_modules/.bin/${name}${process.platform === 'win32' ? '.cmd' : ''}`;

/** A hash of the lock file and the Node ABI, for which native modules are built. */
function installKey() {
  return createHash('sha256')
    .update(readFileSync(`${ROOT}pnpm-lock.yaml`))
    .update(readFileSync(`${ROOT}pnpm-workspace.yaml`))
    .update(`${process.versions.modules} ${process.platform} ${process.arch}`)
    .digest('hex');
}

/** Installs the packages unless just these are installed. */
export async function ensureInstalled() {
  if (MAJOR < 20 || (MAJOR === 20 && MINOR < 19)) {
    throw new Error(`Node ${process.versions.node} is too old: Node 20.19 or newer is needed (https://nodejs.org).`);
  }
  const key = installKey();
  const stamped = existsSync(STAMP) ? readFileSync(STAMP, 'utf8') : '';
  if (stamped === key) return;
  console.error('Installing packages (a minute or two if native code must be compiled) …');
  // An install alone would keep native modules that were built for another Node.
  const rebuild = stamped === '' ? [] : ['--force'];
  await pnpm(['install', '--frozen-lockfile', '--reporter=append-only', ...rebuild], {
    stdio: ['ignore', process.env.CI ? 'inherit' : 'ignore', 'inherit'],
  });
  requireSqlite();
  writeFileSync(STAMP, key);
}

/** better-sqlite3 for Node 20 is optional, because newer versions do not need it. An install does not report a failed compilation. */
function requireSqlite() {
  if (MAJOR >= 22) return;
  try {
    const Database = createRequire(`${ROOT}apps/server/package.json`)('better-sqlite3-node20');
    new Database(':memory:').close();
  } catch (error) {
    throw new Error(
      `better-sqlite3 could not be compiled for Node ${process.versions.node}. Install Python 3, make and a C++ compiler and try again, or use Node 22 or newer, for which it comes compiled. (${error.message.split('\n')[0]})`,
    );
  }
}

/** Runs the pinned pnpm with npx, so that npm is enough. Turbo needs pnpm on its PATH, which npx adds. */
export function pnpm(args, options = {}) {
  const { packageManager } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
  const env = { ...process.env, TURBO_TELEMETRY_DISABLED: '1', TURBO_NO_UPDATE_NOTIFIER: '1', DO_NOT_TRACK: '1' };
  return run('npx', ['--yes', packageManager, ...args], { env, shell: process.platform === 'win32', ...options });
}

/** Builds the workspaces that changed, as turbo detects. */
export async function ensureBuilt() {
  await pnpm(['exec', 'turbo', 'run', 'build', '--output-logs=errors-only'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** Runs the work of a command. An error becomes a message and an exit code, without a stack. */
export async function main(work) {
  try {
    await work();
  } catch (error) {
    console.error(error instanceof CommandFailed ? error.message : `${error instanceof Error ? error.message : error}`);
    process.exitCode = error instanceof CommandFailed ? error.exitCode : 1;
  }
}
