/** The used parts of Node's modules. This package is built without Node's types, because it also runs elsewhere. */
export interface NodeModules {
  'fs/promises': {
    readFile(path: string, encoding: 'utf8'): Promise<string>;
    writeFile(path: string, data: string, options: { mode: number }): Promise<void>;
    mkdir(path: string, options: { recursive: true; mode: number }): Promise<unknown>;
    rename(from: string, to: string): Promise<void>;
    rm(path: string, options: { force: true }): Promise<void>;
    readdir(path: string): Promise<string[]>;
    stat(path: string): Promise<{ mtimeMs: number }>;
  };
  path: { join(...parts: string[]): string };
  os: { homedir(): string };
  crypto: { createHash(name: 'sha256'): { update(text: string): { digest(encoding: 'hex'): string } } };
}

interface NodeProcess {
  env: Record<string, string | undefined>;
  getBuiltinModule?(name: string): unknown;
}

/** Node's `process`; undefined in other runtimes. */
export function nodeProcess(): NodeProcess | undefined {
  return (globalThis as { process?: NodeProcess }).process;
}

/** A module of Node; undefined in other runtimes. Not imported, because bundlers would resolve it for browsers. */
export function nodeModule<Name extends keyof NodeModules>(name: Name): NodeModules[Name] | undefined {
  return nodeProcess()?.getBuiltinModule?.(`node:${name}`) as NodeModules[Name] | undefined;
}
